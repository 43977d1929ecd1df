/**
 * A sequential client in a process of its own, so that nothing else runs between its requests: one connection to each
 * server, kept open. Asks as its parent says, and answers with the milliseconds of each request.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Portion, Times } from './sequentialClient.ts';

const connections = new Map<number, Socket>();

process.on('message', (portion: Portion) => {
  void ask(portion).then((times) => process.send?.(times));
});

async function ask({ port, head, texts, expected, pause }: Portion): Promise<Times> {
  const times: number[] = [];
  let failed = 0;
  const socket = await connectionTo(port);
  for (const text of texts) {
    const request = text === '' ? `${head}\r\n` : `${head}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
    if (pause > 0) await sleep(pause);
    const start = process.hrtime.bigint();
    const response = await exchange(socket, request);
    times.push(Number(process.hrtime.bigint() - start) / 1e6);
    if (!response.startsWith('HTTP/1.1 200 ') || !response.includes(expected)) failed++;
  }
  return { times, failed };
}

async function connectionTo(port: number): Promise<Socket> {
  let socket = connections.get(port);
  if (socket === undefined || socket.destroyed) {
    socket = connect({ port, host: '127.0.0.1', noDelay: true });
    connections.set(port, socket);
    await new Promise((resolve, reject) => socket?.once('connect', resolve).once('error', reject));
  }
  return socket;
}

/** Sends a request and reads its answer, whose length has to be announced or which ends with the last chunk. */
function exchange(socket: Socket, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const onData = (chunk: Buffer): void => {
      text += chunk.toString('latin1');
      if (!isWhole(text)) return;
      socket.off('data', onData).off('close', onClose);
      resolve(text);
    };
    const onClose = () => reject(new Error('the connection was closed within an answer'));
    socket.on('data', onData).once('close', onClose);
    socket.write(request);
  });
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(0, end + 2))?.[1];
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length >= end + 4 + Number(length);
}
