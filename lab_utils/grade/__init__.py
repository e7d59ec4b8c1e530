"""Grading: submissions at work in rooms of their own, and what they did measured from outside."""
