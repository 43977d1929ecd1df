import { connect } from 'node:tls';

/** Names of frame types by their code (RFC 9113 §6). */
const TYPES = ['DATA', 'HEADERS', 'PRIORITY', 'RST_STREAM', 'SETTINGS', 'PUSH_PROMISE', 'PING', 'GOAWAY'] as const;
const END_STREAM = 1;
const END_HEADERS = 4;

/** A frame that the server sent (RFC 9113 §4.1). */
export interface Http2Frame {
  readonly type: (typeof TYPES)[number] | 'WINDOW_UPDATE' | 'CONTINUATION';
  /** The flag of HEADERS and DATA; false for all other types. */
  readonly endStream: boolean;
  /** 0 for the connection. */
  readonly stream: number;
  readonly payload: Buffer;
}

/** One HTTP/2 connection whose frames the test sends and sees one by one. */
export interface RawHttp2 {
  /** All frames of the server so far. */
  readonly frames: readonly Http2Frame[];
  /** Whether the server has ended the connection. */
  readonly ended: boolean;
  /** Sends HEADERS, without END_STREAM unless asked for. */
  headers(
    stream: number,
    method: string,
    path: string,
    options?: { readonly endStream?: boolean; readonly headers?: Readonly<Record<string, string>> },
  ): void;
  data(stream: number, bytes: Buffer, endStream: boolean): void;
  reset(stream: number, code: number): void;
  /** Lets the server send so many bytes more, on a stream or (0) on the connection. */
  windowUpdate(stream: number, bytes: number): void;
  close(): Promise<void>;
}

/** Connects over TLS and sends the connection preface with empty settings. */
export async function rawHttp2(port: number, ca: string): Promise<RawHttp2> {
  const socket = connect({ port, host: 'localhost', ca, ALPNProtocols: ['h2'] });
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  const frames: Http2Frame[] = [];
  const state = { ended: false };
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const end = 9 + rest.readUIntBE(0, 3);
      const type = TYPES[rest.readUInt8(3)] ?? (rest.readUInt8(3) === 8 ? 'WINDOW_UPDATE' : 'CONTINUATION');
      const endStream = (type === 'DATA' || type === 'HEADERS') && (rest.readUInt8(4) & END_STREAM) !== 0;
      frames.push({ type, endStream, stream: rest.readUInt32BE(5), payload: rest.subarray(9, end) });
      rest = rest.subarray(end);
    }
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    state.ended = true;
  });
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]));
  return {
    frames,
    get ended() {
      return state.ended;
    },
    headers(stream, method, path, { endStream = false, headers = {} } = {}) {
      const head = [':method', method, ':scheme', 'https', ':authority', 'localhost', ':path', path];
      const own = ['x-engine-user', 'u', ...Object.entries(headers).flat()];
      const fields = [...head, ...own].map((text, index) => literal(text, index % 2 === 0));
      socket.write(frame(1, END_HEADERS | (endStream ? END_STREAM : 0), stream, Buffer.concat(fields)));
    },
    data: (stream, bytes, endStream) => void socket.write(frame(0, endStream ? END_STREAM : 0, stream, bytes)),
    reset: (stream, code) => void socket.write(frame(3, 0, stream, uint32(code))),
    windowUpdate: (stream, bytes) => void socket.write(frame(8, 0, stream, uint32(bytes))),
    close: async () => void socket.destroy(),
  };
}

/** A frame's bytes (RFC 9113 §4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Half of a literal field without indexing, name or value shorter than 127 bytes (RFC 7541 §6.2.2). */
function literal(text: string, isName: boolean): Buffer {
  return Buffer.concat([Buffer.from(isName ? [0, text.length] : [text.length]), Buffer.from(text)]);
}
