"""The engine: a layout carried out on an ordinary model. Imports neither estimate, measure,
engines, widgets nor course."""
