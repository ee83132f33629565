"""What says which elements of a weight are zero."""
