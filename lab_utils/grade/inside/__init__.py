"""What runs in a room, beside the answer. Nothing in here is secret, and nothing that it says is
believed: the grader believes what it carries, and what it sees from outside."""
