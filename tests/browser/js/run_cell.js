// Runs the cell with this id; without `wait` returns while it runs.
([name, wait]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.deselectAll();
  notebook.activeCellIndex = notebook.widgets.findIndex(cell => cell.model.id === name);
  const done = window.jupyterapp.commands.execute("notebook:run-cell");
  return wait ? done : null;
}
