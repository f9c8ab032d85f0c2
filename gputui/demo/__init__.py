"""`gputui demo`: pretend trainings on simulated GPUs, a tour through the keys, and a broom for what they leave."""
