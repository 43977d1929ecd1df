import { expect, test } from 'vitest';
import { BodyPaces, PACE_GRACE_MS } from '../../../../src/gateway/bodies/bodyPaces.ts';
import { systemClock } from '../../../../src/model/clock.ts';

function paces(rate: number) {
  const time = { now: 0 };
  const watched = new BodyPaces(() => rate, { ...systemClock, monotonic: () => time.now });
  const slow: string[] = [];
  return { time, slow, watched, watch: (name: string) => watched.watch(() => slow.push(name)) };
}

test('bodies below the rate are reported once, after the time in which any rate will do', () => {
  const { time, slow, watched, watch } = paces(100);
  watch('silent');
  watch('slow').received = 999;
  watch('fast').received = 100_000;
  watch('ended').end();
  time.now = PACE_GRACE_MS;
  watched.check();
  expect(slow).toEqual([]);
  time.now += 1;
  watched.check();
  watched.check();
  expect(slow.sort()).toEqual(['silent', 'slow']);
});

test('time in which the gateway itself does not read does not count', () => {
  const { time, slow, watched, watch } = paces(100);
  const pace = watch('held back');
  pace.received = 500;
  time.now = 5_000;
  pace.holdBack();
  time.now = 100_000;
  watched.check();
  expect(slow).toEqual([]);
  pace.goOn();
  time.now += PACE_GRACE_MS - 5_000;
  watched.check();
  expect(slow).toEqual([]);
  time.now += 1;
  watched.check();
  expect(slow).toEqual(['held back']);
});

test('a rate of 0 lets every body take its time', () => {
  const { time, slow, watched, watch } = paces(0);
  watch('silent');
  time.now = 1e9;
  watched.check();
  expect(slow).toEqual([]);
});

test.each([['first'], ['second'], ['third']])('ending the %s of three watches leaves the others', (name) => {
  const { time, slow, watched, watch } = paces(100);
  const all = new Map(['first', 'second', 'third'].map((each) => [each, watch(each)]));
  all.get(name)?.end();
  time.now = PACE_GRACE_MS + 1;
  watched.check();
  expect(slow.sort()).toEqual([...all.keys()].filter((each) => each !== name).sort());
});
