# The course for a class on one machine: python -m jupyterhub -f servers/jupyterhub_config.py
# docs/servers.md says what to install. Who may log in is yours: c.JupyterHub.authenticator_class
import sys
from pathlib import Path

c = get_config()  # noqa: F821

COURSE = Path(__file__).resolve().parents[1]
LEARNERS = 30

c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # behind the web server that speaks TLS
c.JupyterHub.active_server_limit = LEARNERS

c.Spawner.cmd = [str(COURSE / "servers/session")]
c.Spawner.default_url = "/lab/tree/lessons/en/00_start.ipynb"  # zh for a Chinese class
c.Spawner.environment = {"OMP_NUM_THREADS": "1", "LAB_LANG": "en"}
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # thirty learners come in the same minute

# LocalProcessSpawner, the default, holds nobody to a limit. systemd does:
# c.JupyterHub.spawner_class = "systemd"  # pip install jupyterhub-systemdspawner
c.Spawner.mem_limit = "2G"  # `python -m lab_utils doctor --server` says what a session takes
c.Spawner.cpu_limit = 2.0  # two ranks at full speed, as long as there are cores

# a learner who went home gives the memory back after an hour: pip install jupyterhub-idle-culler
c.JupyterHub.load_roles = [
    {
        "name": "idle",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle"],
    }
]
c.JupyterHub.services = [
    {"name": "idle", "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"]}
]
