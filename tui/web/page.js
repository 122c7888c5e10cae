// What the terminal's script (textual-serve) leaves to the page: the address of the socket, the focus, and how it ended.
"use strict";

const Plain = window.WebSocket;

window.WebSocket = class extends Plain {
  constructor(address) {
    super(address);
    this.addEventListener("open", () => {
      window.addEventListener("beforeunload", ask);
      document.querySelector(".xterm-helper-textarea").focus();
    });
    this.addEventListener("close", (event) => {
      window.removeEventListener("beforeunload", ask);
      const why = document.getElementById("why");
      if (event.reason) why.textContent = event.reason;
      else if (event.code !== 1000) why.textContent = "frost web does not answer.";
      document.getElementById("again").focus();
    });
  }
};

// ctrl+w erases a word in a terminal and closes the tab in a browser.
function ask(event) {
  event.preventDefault();
}

document.addEventListener("DOMContentLoaded", () => {
  // The terminal takes its measure from the font it finds; asked for by nothing yet, it would come too late.
  document.fonts.load('16px "Roboto Mono"');
  const terminal = document.getElementById("terminal");
  const address = new URL("socket", window.location.href);
  address.protocol = "ws:";
  terminal.dataset.sessionWebsocketUrl = address.href;
  document.getElementById("again").addEventListener("click", () => window.location.reload());
});
