import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UnreadChunks } from '../../../../src/gateway/bodies/unreadChunks.ts';

/** A stream whose chunks come when its source has them, as those of a connection do. */
class ConnectionStream extends Readable {
  readonly #unread = new UnreadChunks(this, (chunk) => super.push(chunk));
  /** How often more was asked for. */
  asked = 0;

  override _read(): void {
    this.asked++;
  }

  override push(chunk: Buffer | null): boolean {
    return this.#unread.push(chunk);
  }

  override read(size?: number): unknown {
    this.#unread.flush();
    return super.read(size);
  }
}

function collect(stream: Readable): Buffer[] {
  const pieces: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => pieces.push(chunk));
  return pieces;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('chunks that nobody reads', () => {
  test('many small ones come as few', async () => {
    const stream = new ConnectionStream();
    for (let index = 0; index < 50_000; index++) stream.push(Buffer.from([index % 256]));
    const pieces = collect(stream);
    await turn();
    expect(pieces.length).toBeLessThan(10);
    expect(Buffer.concat(pieces)).toEqual(Buffer.from(Array.from({ length: 50_000 }, (_, index) => index % 256)));
  });

  test('small parts of large memory do not keep it from being freed', async () => {
    const stream = new ConnectionStream();
    for (let index = 0; index < 20; index++) stream.push(Buffer.alloc(65_536, index).subarray(0, 2_000));
    const pieces = collect(stream);
    await turn();
    const memories = new Set(pieces.map(({ buffer }) => buffer));
    const held = [...memories].reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(held).toBeLessThan(65_536 + 2 * 20 * 2_000);
  });

  test('the stream has enough as soon as all bytes together are its high-water mark, and asks for more once read', async () => {
    const stream = new ConnectionStream({ highWaterMark: 1_000 });
    const small = Buffer.alloc(100);
    const answers = Array.from({ length: 10 }, () => stream.push(small));
    expect(answers).toEqual([...Array.from({ length: 9 }, () => true), false]);
    await turn();
    const before = stream.asked;
    const pieces = collect(stream);
    await turn();
    expect(Buffer.concat(pieces).length).toBe(1_000);
    expect(stream.asked).toBeGreaterThan(before);
  });

  test('whatever is read when, all bytes come in their order, then the end', async () => {
    const step = fc.oneof(
      fc.record({ chunk: fc.integer({ min: 1, max: 3_000 }) }),
      fc.constantFrom('pause' as const, 'resume' as const, 'turn' as const),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const stream = new ConnectionStream({ highWaterMark: 2_048 });
        const pieces = collect(stream);
        const sent: Buffer[] = [];
        for (const each of steps) {
          if (each === 'pause') stream.pause();
          else if (each === 'resume') stream.resume();
          else if (each === 'turn') await turn();
          else {
            const chunk = Buffer.alloc(each.chunk, sent.length);
            sent.push(chunk);
            stream.push(chunk);
          }
        }
        const ended = new Promise((resolve) => stream.once('end', resolve));
        stream.push(null);
        stream.resume();
        await ended;
        expect(Buffer.concat(pieces).equals(Buffer.concat(sent))).toBe(true);
      }),
    );
  });
});
