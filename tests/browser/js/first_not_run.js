// The source of the cell that is running, or waits to be.
() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .find(cell => cell.type === "code" && cell.sharedModel.source.trim()
    && (cell.executionCount === null || cell.executionState === "running"))
  ?.sharedModel.source ?? "every cell has run"
