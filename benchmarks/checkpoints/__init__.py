"""How fast the control plane is: a checkpoint of many tasks whose stages answer at once."""
