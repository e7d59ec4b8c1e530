"""Lab 05's checks against real ranks beyond the planted answers: hints, languages, and what careless learners hand in."""

from __future__ import annotations



