import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import { hasBody } from './requestBodies.ts';

/** Most time, in milliseconds, in which what a client still sends after its last response is dropped. */
const LINGER_MS = 5_000;

/** Most connections that linger at a time; further ones are closed with the response. */
const MAX_LINGERING = 64;
let lingering = 0;

/** Connections over HTTP/1 on which a request was rejected before its end was seen. */
const ended = new WeakSet<object>();

/** True if a request was rejected on a connection as its last one: what follows must not be looked at. */
export function hasEnded(socket: Socket): boolean {
  return ended.has(socket);
}

/** Reads nothing more from a connection whose last request was rejected. */
export function dropAfterLast(request: IncomingMessage): void {
  request.socket.pause();
}

export function isUnfinished(request: IncomingMessage): boolean {
  return !request.complete && hasBody(request);
}

/**
 * Makes a request the last of its connection, before its response is written: what follows is never run. Over HTTP/2,
 * where requests cannot run into each other, its stream alone ends.
 *
 * A connection that is closed while its client still sends is reset, which can take the response away from the client.
 * So only our side is ended at first, and what comes is dropped (RFC 9112 §9.6).
 */
export function endWith(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersionMajor === 2) {
    const { stream } = response as unknown as Http2ServerResponse;
    // RFC 9113 §8.1: the client need not send the rest.
    response.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
    return;
  }
  const { socket } = request;
  ended.add(socket);
  response.shouldKeepAlive = false;
  // Called by Node after the response was written.
  socket.destroySoon = () => linger(socket);
  request.resume();
}

/**
 * Ends our side of a connection, and drops what comes until the client ends its own, for a while.
 * @param last bytes that are sent before
 */
export function linger(socket: Socket, last = ''): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
  if (lingering < MAX_LINGERING) {
    lingering++;
    socket.once('close', () => {
      lingering--;
    });
  } else socket.once('finish', () => socket.destroy());
  socket.end(last);
}
