import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { linger } from '../bodies/lastRequest.ts';

const answered = new WeakSet<Socket>();

/** Whether a connection got an answer that ends it. */
export function isAnswered(socket: Socket): boolean {
  return answered.has(socket);
}

/** An answer to a request whose head is not whole. */
export interface ConnectionAnswer {
  readonly status: number;
  /** Empty for none. */
  readonly message: string;
  /** Header lines beside those of the body, each with its line end. */
  readonly lines?: string;
}

/**
 * Answers what is not a request (yet), and ends the connection.
 *
 * A connection that is closed while its client still sends is reset, which can take the answer away from the client. So
 * only our side is ended, and what comes is dropped until the client ends its own (RFC 9112 §9.6).
 * @param error what the connection is destroyed with where nothing can be answered: in the middle of another answer it
 *   would be taken for a part of that
 */
export function answerConnection(socket: Socket, answer: ConnectionAnswer, error?: Error): void {
  if (!socket.writable || hasAnswerBegun(socket)) {
    socket.destroy(error);
    return;
  }
  answered.add(socket);
  linger(socket, answerText(answer));
}

function hasAnswerBegun(socket: Socket): boolean {
  const { _httpMessage: message } = socket as { _httpMessage?: { readonly headersSent: boolean } | null };
  return message?.headersSent === true;
}

function answerText({ status, message, lines = '' }: ConnectionAnswer): string {
  const body =
    message === ''
      ? ''
      : `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(message)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${body}${lines}Connection: close\r\n\r\n${message}`;
}
