"""Tests mirror the packages; beside them stand conformance, simulation, histories and the laws of the layout."""
