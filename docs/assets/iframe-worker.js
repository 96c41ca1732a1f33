/* Search from disk: browsers refuse workers for file: pages, so the script of the worker runs in a hidden frame. */
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.append(this.frame)
    const inner = this.frame.contentWindow
    inner.document.open()
    inner.document.write(
      "<script>postMessage = message => parent.postMessage(message, '*');" +
        "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(loaded => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = loaded;" +
        "document.body.append(script) })), Promise.resolve())</" + "script>" +
        `<script src="${url}"></` + "script>"
    )
    this.ready = new Promise(resolve => { inner.onload = resolve })
    inner.document.close()
    addEventListener("message", event => {
      if (event.source !== inner) return
      this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      if (this.onmessage) this.onmessage(event)
    })
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
  }

  terminate() {
    this.frame.remove()
  }
}

if (location.protocol === "file:") window.Worker = window.IFrameWorker = IFrameWorker
