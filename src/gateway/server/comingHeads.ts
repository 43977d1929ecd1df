import type { Socket } from 'node:net';
import { memoryMessage } from '../bodies/bodyRefusal.ts';
import { countHeadPieces, type HeadPieces } from '../bodies/headPieces.ts';
import type { HeldHead } from '../bodies/heldHead.ts';
import { hasEnded } from '../bodies/lastRequest.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import { answerConnection, type ConnectionAnswer, isAnswered } from './connectionAnswer.ts';
import { PacedReading } from './pacedReading.ts';

/** Bytes of a head that may wait for its end on each connection without being charged. */
const FREE_PENDING_BYTES = 65_536;
/** Bytes that the parser may copy of large heads in each turn of the time below; 8 MB take about 3 ms. */
const COPIES_AT_ONCE = 8 * 1024 ** 2;
const COPIES_MS = 25;

const heldBy = Symbol('held head');

/** Members of Node's socket and parser that nothing public stands for. */
interface ParsedSocket extends Socket {
  parser?: Parser | null;
  [heldBy]?: HeldHead;
}
interface Parser {
  [callback: number]: ((parsed: number | Error) => void) | null;
  _consumed: boolean;
  readonly incoming: { readonly complete: boolean; readonly _dumped: boolean } | null;
  unconsume(): void;
  remove(): void;
  close(): void;
}

/** The large head that a connection holds, or held before: its parser keeps the memory until it ends. */
export function heldHeadOf(socket: Socket): HeldHead | undefined {
  return (socket as ParsedSocket)[heldBy];
}

/**
 * Bounds what heads of HTTP/1.1 take that come in many pieces (docs/serving.md#memory-of-requests). Node's parser holds a
 * head until its end comes, up to the limit of its size, on as many connections as there are; it copies all of a long
 * line for each piece that comes; and it keeps the last 32 lines for as long as it lives, to be used for other
 * connections. So heads over 64 kB are charged to the request memory, their connection ends with the answer, its parser
 * is not used again, and pieces are read no faster than a tenth of the processor's time allows.
 */
export class ComingHeads {
  readonly #bodies: RequestBodies;
  /** Its work are bytes that the parser copies for the next piece. */
  readonly #reading = new PacedReading<Socket>({
    workAtOnce: COPIES_AT_ONCE,
    turnMs: COPIES_MS,
    pause: (socket) => socket.pause(),
    resume: (socket) => socket.resume(),
  });

  constructor(bodies: RequestBodies) {
    this.#bodies = bodies;
  }

  /** Watches a connection over HTTP/1.1 that was just made; others are left alone. */
  readonly watch = (socket: Socket): void => {
    const { parser } = socket as ParsedSocket;
    if (parser == null) return;
    const key = keyOfPieces(parser);
    const pieceParsed = parser[key];
    if (pieceParsed == null) return;
    const pieces = countHeadPieces(socket);
    parser[key] = (parsed) => {
      pieces.add(typeof parsed === 'number' ? parsed : 0);
      pieceParsed(parsed);
      if (pieces.bytes > FREE_PENDING_BYTES && typeof parsed === 'number') this.#hold(socket, pieces);
    };
  };

  #hold(socket: ParsedSocket, pieces: HeadPieces): void {
    if (socket.destroyed || isAnswered(socket)) return;
    const { incoming } = socket.parser ?? {};
    if (incoming != null && !incoming.complete && incoming._dumped) {
      // The rest of a body whose request is answered: it is dropped, and not handed on.
      pieces.bytes = 0;
      return;
    }
    if (hasEnded(socket)) {
      socket.pause();
      return;
    }
    const { bytes } = pieces;
    let head = socket[heldBy];
    if (head === undefined) {
      head = this.#bodies.holdHead(socket, () => refuse(socket, { status: 408, message: '' }));
      socket[heldBy] = head;
      const holding = head;
      // Before Node's own listener, which would keep the parser for another connection.
      socket.prependListener('close', () => {
        discardParser(socket);
        holding.release();
      });
    }
    if (head.growTo(bytes)) this.#reading.note(socket, bytes);
    else {
      head.endPace();
      const message = `${memoryMessage(this.#bodies.memory)}\n`;
      refuse(socket, { status: 503, message, lines: 'Retry-After: 1\r\n' });
    }
  }
}

let foundKey: number | null = null;

/** Under which key Node's parser has what it calls for each piece that it has read from the connection. */
function keyOfPieces(parser: Parser): number {
  if (foundKey === null) {
    foundKey = Array.from({ length: 16 }, (_, key) => key).find((key) => parser[key]?.name === NODES_NAME) ?? null;
    if (foundKey === null) throw new Error(`This Node.js has no ${NODES_NAME}: large heads cannot be bounded`);
  }
  return foundKey;
}
const NODES_NAME = 'bound onParserExecute';

/** Answers, and drops what still comes without parsing it. */
function refuse(socket: Socket, answer: ConnectionAnswer): void {
  answerConnection(socket, answer);
  if (socket.destroyed) return;
  socket.removeAllListeners('data');
  // Takes the connection away from the parser.
  socket.on('data', () => undefined);
  socket.resume();
}

/** Does what Node does with the parser of a connection that is over, but frees its memory. */
function discardParser(socket: ParsedSocket): void {
  const { parser } = socket;
  if (parser == null) return;
  socket.parser = null;
  if (parser._consumed) parser.unconsume();
  parser.remove();
  // The parser may be at work further up the stack.
  setImmediate(() => parser.close());
}
