"""What says how many elements are zero at a time of training."""
