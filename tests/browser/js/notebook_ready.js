// Whether the notebook is open and its kernel waits for work; without one, whether it is drawn.
needsKernel => {
  const widget = window.jupyterapp?.shell?.currentWidget, session = widget?.context?.sessionContext;
  if (!widget?.content?.model) return false;
  if (!needsKernel) return widget.context.isReady;
  return session?.isReady && session.session?.kernel?.status === "idle";
}
