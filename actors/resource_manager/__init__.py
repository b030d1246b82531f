"""The ResourceManager and its parts."""
