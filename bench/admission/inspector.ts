import { setTimeout as sleep } from 'node:timers/promises';

/** The inspector of a Node process that was started with `--inspect`, asked for its memory. */
export class Inspector {
  readonly #socket: WebSocket;
  readonly #responses = new Map<number, (result: Record<string, number>) => void>();
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const { id, result } = JSON.parse(String(data)) as { id?: number; result?: Record<string, number> };
      if (id !== undefined) this.#responses.get(id)?.(result ?? {});
    });
  }

  /** Connects to the process whose inspector listens on that port of 127.0.0.1. */
  static async connect(port: number): Promise<Inspector> {
    const targets = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
      readonly webSocketDebuggerUrl: string;
    }[];
    const socket = new WebSocket(targets[0]?.webSocketDebuggerUrl ?? '');
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener('open', () => resolve());
      socket.addEventListener('error', () => reject(new Error('the inspector does not answer')));
    });
    return new Inspector(socket);
  }

  /** Collects garbage, twice: what finalizers let go of is garbage only then. @returns bytes of the heap in use */
  async collectGarbage(): Promise<number> {
    await this.#call('HeapProfiler.collectGarbage');
    await sleep(200);
    await this.#call('HeapProfiler.collectGarbage');
    return (await this.#call('Runtime.getHeapUsage')).usedSize ?? 0;
  }

  close(): void {
    this.#socket.close();
  }

  #call(method: string): Promise<Record<string, number>> {
    const id = ++this.#count;
    return new Promise((resolve) => {
      this.#responses.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method }));
    });
  }
}
