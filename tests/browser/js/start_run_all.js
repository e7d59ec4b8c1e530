// Run every cell; returns at once, `allHaveRun` says when it is done.
() => {
  window.allHaveRun = false;
  window.jupyterapp.commands.execute("notebook:run-all-cells").finally(() => { window.allHaveRun = true; });
}
