"""Tests mirror the packages; conformance, bad input, histories and layout rules have their own folders."""
