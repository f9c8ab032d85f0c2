"""Full-screen views."""
