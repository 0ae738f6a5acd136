"""The table for Textual, driven by Textual's pilot."""
