// A view of what changes without an event: it is asked for again while it is looked at.

export class AskedView {
  constructor(redraw, everyMs) {
    this.redraw = redraw;
    this.everyMs = everyMs;
    this.asked = 0;
    this.found = null;
    this.failure = null;
  }

  path() {
    return "/events";
  }

  update() {
    if (Date.now() - this.asked < this.everyMs) return;
    this.asked = Date.now();
    this.ask();
  }

  async ask() {
    try {
      this.found = await this.look();
      this.failure = null;
    } catch (failure) {
      this.failure = failure.message;
    }
    this.redraw();
  }
}
