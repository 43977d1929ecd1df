import { expect, test } from 'vitest';
import { ConnectionPlaces } from '../../../../src/api/auth/connectionPlaces.ts';

test('places are taken in the order in which they are waited for', async () => {
  const places = new ConnectionPlaces({ places: 2, waiting: 2, timeout: 60_000 });
  await Promise.all([places.take(), places.take()]);
  const entered: string[] = [];
  const waiting = ['first', 'second'].map((name) => places.take().then(() => entered.push(name)));
  await expect(places.take()).rejects.toThrow('2 connections are in use, and 2 uses wait for one');
  places.give();
  await waiting[0];
  expect(entered).toEqual(['first']);
  places.give();
  await waiting[1];
  expect(entered).toEqual(['first', 'second']);
});

test('a place is not waited for beyond the time limit, and who gave up does not get it', async () => {
  const places = new ConnectionPlaces({ places: 1, waiting: 1, timeout: 10 });
  await places.take();
  await expect(places.take()).rejects.toThrow('1 connections are in use, and none became free within 10 ms');
  places.give();
  await places.take();
  await expect(places.take()).rejects.toThrow('none became free');
});
