"""Where models are kept, and how they are brought from there: one file for each kind of source."""
