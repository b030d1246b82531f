"""The actor that answers for jobs, the ended ones too."""
