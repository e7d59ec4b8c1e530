// What went wrong in the notebook's cells.
() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .filter(cell => cell.type === "code")
  .flatMap(cell => cell.sharedModel.outputs)
  .filter(output => output.output_type === "error")
  .map(output => `${output.ename}: ${output.evalue}`)
