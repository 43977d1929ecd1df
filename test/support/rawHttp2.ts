import { connect } from 'node:tls';

/** Names of frame types by their code (RFC 9113 §6). */
const TYPES = ['DATA', 'HEADERS', 'PRIORITY', 'RST_STREAM', 'SETTINGS', 'PUSH_PROMISE', 'PING', 'GOAWAY'] as const;
const END_STREAM = 1;
const END_HEADERS = 4;
/** Largest payload of a frame unless the receiver allows more (RFC 9113 §4.2). */
const MAX_FRAME = 16_384;

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
      for (const bytes of headFrames(stream, headBlock(method, path, headers), endStream)) socket.write(bytes);
    },
    data: (stream, bytes, endStream) => void socket.write(frame(0, endStream ? END_STREAM : 0, stream, bytes)),
    reset: (stream, code) => void socket.write(frame(3, 0, stream, uint32(code))),
    windowUpdate: (stream, bytes) => void socket.write(frame(8, 0, stream, uint32(bytes))),
    close: async () => void socket.destroy(),
  };
}

/** A frame's bytes (RFC 9113 §4.1). */
export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  return Buffer.concat([frameHead(type, flags, stream, payload.length), payload]);
}

function frameHead(type: number, flags: number, stream: number, length: number): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return head;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A request's head as literal fields, which no table holds: it may be sent on any connection, again and again. */
export function headBlock(method: string, path: string, headers: Readonly<Record<string, string>> = {}): Buffer {
  const head = [':method', method, ':scheme', 'https', ':authority', 'localhost', ':path', path];
  const own = ['x-engine-user', 'u', ...Object.entries(headers).flat()];
  return Buffer.concat([...head, ...own].map((text, index) => literal(text, index % 2 === 0)));
}

/** HEADERS and CONTINUATION frames of a head; without its end, which the server waits for, where it is left open. */
export function headFrames(stream: number, block: Buffer, endStream: boolean, isOpen = false): readonly Buffer[] {
  const frames: Buffer[] = [];
  for (let start = 0; start < block.length; start += MAX_FRAME) {
    const isLast = start + MAX_FRAME >= block.length && !isOpen;
    const flags = (isLast ? END_HEADERS : 0) | (start === 0 && endStream ? END_STREAM : 0);
    const payload = block.subarray(start, start + MAX_FRAME);
    frames.push(frameHead(start === 0 ? 1 : 9, flags, stream, payload.length), payload);
  }
  return frames;
}

/** Half of a literal field without indexing (RFC 7541 §6.2.2). */
function literal(text: string, isName: boolean): Buffer {
  return Buffer.concat([Buffer.from(isName ? [0, ...lengthOf(text)] : lengthOf(text)), Buffer.from(text)]);
}

/** Length of a text that is not compressed, as an integer with a prefix of 7 bits (RFC 7541 §5.1). */
function lengthOf(text: string): readonly number[] {
  if (text.length < 127) return [text.length];
  const bytes = [127];
  let rest = text.length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return [...bytes, rest];
}
