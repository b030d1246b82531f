"""The tests mirror the rooms; beside them stand conformance, simulation, histories and the house rules."""
