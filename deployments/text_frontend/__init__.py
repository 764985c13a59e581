"""Text to utterances: normalisation, language, splitting, phonemes and symbol ids. No torch in here."""
