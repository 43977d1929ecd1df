import type { Socket } from 'node:net';

const piecesOf = Symbol('pieces of a head');

interface CountedSocket extends Socket {
  [piecesOf]?: HeadPieces;
}

/**
 * What has come of a head (or of trailers) whose end is not there yet, on a connection over HTTP/1.1. The parser holds it
 * until the end comes, and reports nothing of it; but it hands on each piece that it has read. A piece with which neither a
 * head became whole nor a part of a body came is of a head. A head that came in one piece is never counted, and of the
 * others the start may be missing where it came together with the request before.
 */
export class HeadPieces {
  /** Bytes of the head so far. */
  bytes = 0;
  #holdsMore = false;

  /** The piece that is being parsed holds more than a part of a head. */
  settle(): void {
    this.#holdsMore = true;
  }

  /** Counts a piece, once it is parsed. */
  add(bytes: number): void {
    if (this.#holdsMore) {
      this.#holdsMore = false;
      this.bytes = 0;
    } else this.bytes += bytes;
  }
}

/** Begins to count on a connection. */
export function countHeadPieces(socket: Socket): HeadPieces {
  const pieces = new HeadPieces();
  (socket as CountedSocket)[piecesOf] = pieces;
  return pieces;
}

/** What is counted on a connection; undefined where nothing is. */
export function headPiecesOf(socket: Socket): HeadPieces | undefined {
  return (socket as CountedSocket)[piecesOf];
}
