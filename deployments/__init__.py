"""The stages: text frontend, acoustic model and vocoder, each a Ray Serve deployment of its own."""
