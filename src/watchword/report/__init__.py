"""Results to text, pictures and pages."""
