// The process of the notebook's kernel.
async () => {
  const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
  const asked = { code: "", user_expressions: { pid: '__import__("os").getpid()' } };
  const reply = await kernel.requestExecute(asked).done;
  return Number(reply.content.user_expressions.pid.data["text/plain"]);
}
