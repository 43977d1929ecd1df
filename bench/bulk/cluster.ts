/**
 * A stub cluster of large answers, in a process of its own: they are made once, with head and chunks, so that it takes as
 * little of the processor as it can. Says `listening PORT` on its output.
 */
import { randomFillSync } from 'node:crypto';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type Shape, shapes } from './shapes.ts';

const json = (value: unknown) => {
  const text = JSON.stringify(value);
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
};

const responses = new Map<string, Buffer>(shapes.map((shape) => [shape.path, responseOf(shape)]));
responses.set('/v1/info', json({ starting: false }));
responses.set(
  '/v1/statement',
  json({
    id: '20261121_015745_00001_bench',
    nextUri: 'http://localhost/v1/statement/queued/20261121_015745_00001_bench/y/1',
  }),
);
const missing = Buffer.from('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n');

function responseOf({ size, chunk, encoding }: Shape): Buffer {
  const body = bodyOf(size, encoding !== null);
  const type = `Content-Type: application/json\r\n${encoding === null ? '' : `Content-Encoding: ${encoding}\r\n`}`;
  const head = (length: string) => Buffer.from(`HTTP/1.1 200 OK\r\n${type}${length}\r\n\r\n`);
  if (chunk === null) return Buffer.concat([head(`Content-Length: ${size}`), body]);
  const parts = [head('Transfer-Encoding: chunked')];
  for (let from = 0; from < size; from += chunk) {
    const piece = body.subarray(from, from + chunk);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

/** Rows as JSON; what is compressed already does not look like it. */
function bodyOf(size: number, compressed: boolean): Buffer<ArrayBuffer> {
  const body = Buffer.alloc(size);
  if (compressed) return randomFillSync(body);
  const start =
    '{"id":"20261121_015745_00001_bench","nextUri":"http://localhost/v1/statement/executing/20261121_015745_00001_bench/y/2","data":[';
  body.fill('[17,"a name","2026-11-21",1234.5],');
  body.write(start);
  return body;
}

const server = createServer({ noDelay: true }, (socket: Socket) => {
  let text = '';
  socket.on('error', () => undefined);
  socket.on('data', (data: Buffer) => {
    text += data.toString('latin1');
    for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
      const head = text.slice(0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      text = text.slice(end + 4 + length);
      const [, target = ''] = head.split(' ', 2);
      socket.write(responses.get(target) ?? missing);
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${(server.address() as AddressInfo).port}`));
