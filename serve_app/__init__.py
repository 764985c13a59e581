"""The front: composing the stages into one application and reaching it over HTTP and the command line."""
