"""What examines and rescues a file: the doctor, its figures, and salvage from raw pages."""
