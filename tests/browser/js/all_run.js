// Whether every cell has run, or one has failed.
() => {
  const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
  const code = cells.filter(cell => cell.type === "code" && cell.sharedModel.source.trim());
  const failed = cell => cell.sharedModel.outputs.some(out => out.output_type === "error");
  const done = cell => cell.executionCount !== null && cell.executionState !== "running";
  return code.some(failed) || code.every(done);
}
