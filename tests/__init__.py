"""Tests mirror the packages. Tests of conformance, bad input, histories and layout rules have their own folders."""
