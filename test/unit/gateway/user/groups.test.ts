import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { membershipOf } from '../../../../src/gateway/analysis/membership.ts';
import { claimedGroups } from '../../../../src/gateway/user/groups/groupClaim.ts';
import { parseGroupFile } from '../../../../src/gateway/user/groups/groupFile.ts';
import { type GroupSource, MAX_GROUPS, unbelieved } from '../../../../src/gateway/user/groups/groupSource.ts';
import { issuerGroups } from '../../../../src/gateway/user/groups/issuerGroups.ts';
import { RememberedGroups } from '../../../../src/gateway/user/groups/rememberedGroups.ts';
import { UserGroups } from '../../../../src/gateway/user/groups/userGroups.ts';
import { EvidentUser, type UserEvidence } from '../../../../src/gateway/user/userEvidence.ts';
import { UserNamespace } from '../../../../src/gateway/user/userNamespace.ts';

describe('group files', () => {
  test.each([
    ['etl:ann,bob', { ann: ['etl'], bob: ['etl'] }],
    ['# people\r\n\r\netl: ann , bob ,\nadmins:ann\netl:cid\n', { ann: ['etl', 'admins'], bob: ['etl'], cid: ['etl'] }],
    ['etl:ann,ann\netl:ann', { ann: ['etl'] }],
    ['etl:corp:ann', { 'corp:ann': ['etl'] }],
    ['etl:', {}],
    ['', {}],
    ['etl:__proto__,constructor', { ['__proto__']: ['etl'], constructor: ['etl'] }],
  ])('%j', (text, groups) => {
    expect([...parseGroupFile(text)].sort()).toEqual(Object.entries(groups).sort());
  });

  test.each([
    ['etl:ann\nadmins', 'line 2 must be group:user1,user2'],
    [':ann', 'line 1 must be group:user1,user2'],
    ['etl:ann\n\0:bob', 'line 2 must be group:user1,user2'],
    [`${'g'.repeat(600)}:ann`, 'line 1 must be group:user1,user2'],
  ])('%j is refused', (text, message) => {
    expect(() => parseGroupFile(text)).toThrow(message);
  });

  test('a user has no more groups than are taken of any source', () => {
    const text = Array.from({ length: MAX_GROUPS + 5 }, (_, index) => `g${index}:ann`).join('\n');
    expect(parseGroupFile(text).get('ann')).toHaveLength(MAX_GROUPS);
  });
});

describe('groups that are looked up', () => {
  const settings = { timeout: 20, cacheDuration: 60_000, keepLastKnown: 3_600_000, maxCachedUsers: 2 };
  /** A clock that stands still until it is moved, and a source that counts its questions. */
  const remembering = () => {
    const clock = { time: 0, monotonic: () => clock.time };
    const logger = pino({ level: 'silent' });
    const groups = new RememberedGroups({ settings, source: 'ldap', clock, logger });
    let questions = 0;
    const answering = (answer: () => Promise<readonly string[]>) => async () => {
      questions += 1;
      return { groups: await answer() };
    };
    const up = answering(async () => ['a']);
    const down = answering(async () => Promise.reject(new Error('it is down')));
    return { clock, groups, up, down, answering, questions: () => questions };
  };

  test('an answer is current for its time, then the source is asked once more', async () => {
    const { clock, groups, up, questions } = remembering();
    expect(await groups.of('ann', up)).toEqual({ groups: ['a'] });
    clock.time = settings.cacheDuration - 1;
    expect(groups.of('ann', up)).toEqual({ groups: ['a'] });
    expect(questions()).toBe(1);
    clock.time += 1;
    await Promise.all([groups.of('ann', up), groups.of('ann', up)]);
    expect(questions()).toBe(2);
  });

  test('without the source the last known groups count for their time, then none', async () => {
    const { clock, groups, up, down, questions } = remembering();
    await groups.of('ann', up);
    clock.time = settings.cacheDuration;
    expect(await groups.of('ann', down)).toEqual({ groups: ['a'], note: 'last known: it is down' });
    expect(groups.of('ann', down)).toEqual({ groups: ['a'], note: 'last known: it is down' });
    expect(questions()).toBe(2);
    clock.time = settings.keepLastKnown;
    expect(await groups.of('ann', down)).toEqual({ groups: [], note: 'it is down' });
    clock.time += 10_000;
    expect(await groups.of('ann', up)).toEqual({ groups: ['a'] });
  });

  test('a query waits no longer than the time limit, and the answer serves the next one', async () => {
    const { groups, answering } = remembering();
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const slow = answering(() => promise);
    expect(await groups.of('ann', slow)).toEqual({ groups: [], note: 'no answer within 20 ms' });
    resolve(['b']);
    expect(await groups.of('ann', slow)).toEqual({ groups: ['b'] });
  });

  test('users who were never known do not push out those who are, while the source is unavailable', async () => {
    const { clock, groups, up, down, questions } = remembering();
    for (const user of ['ann', 'bob']) await groups.of(user, up);
    clock.time = settings.cacheDuration;
    for (let user = 0; user < 20; user += 1) {
      expect(await groups.of(`user-${user}`, down)).toEqual({ groups: [], note: 'it is down' });
    }
    expect(questions()).toBe(22);
    // The failure is remembered of the last ones.
    expect(groups.of('user-19', down)).toEqual({ groups: [], note: 'it is down' });
    for (const user of ['ann', 'bob']) {
      expect(await groups.of(user, down)).toEqual({ groups: ['a'], note: 'last known: it is down' });
    }
    expect(questions()).toBe(24);
  });

  test('a note of the source stays with its answer', async () => {
    const { groups } = remembering();
    const partial = { groups: ['a'], note: 'not all groups' };
    expect(await groups.of('ann', async () => partial)).toEqual(partial);
    expect(groups.of('ann', async () => partial)).toEqual(partial);
    expect(groups.remembered('ann')).toEqual(partial);
  });

  test('neither what is remembered nor what is asked grows without bounds', async () => {
    const { groups, up, answering, questions } = remembering();
    for (const user of ['a', 'b', 'c', 'a']) await groups.of(user, up);
    expect(questions()).toBe(4);
    const never = answering(() => new Promise(() => undefined));
    const answers = Array.from({ length: 100 }, (_, index) => groups.of(`user-${index}`, never));
    expect(questions()).toBe(68);
    expect(await answers.at(-1)).toEqual({ groups: [], note: '64 users are looked up already' });
    await Promise.all(answers);
  });
});

describe('sources together', () => {
  const source = (...groups: string[]): GroupSource => ({
    name: 'file',
    groupsOf: (asker) => unbelieved(asker) ?? { groups },
    describedGroupsOf: () => ({ groups }),
  });
  const later = (...groups: string[]): GroupSource => ({ ...source(), groupsOf: async () => ({ groups }) });
  const verified: UserEvidence = { source: 'bearer', claims: null, isVerified: true };
  const claimed: UserEvidence = { source: 'header', claims: null, isVerified: false };
  const groupsOf = async (sources: readonly GroupSource[], settings: object, evidence = verified) => {
    const all = new UserGroups(sources, { combine: 'all', claimedUsers: [], ...settings });
    const { membership } = await all.of(new EvidentUser('ann', evidence), { headers: [], address: undefined });
    return membership;
  };

  test('with `all` a user has the groups of all, each once', async () => {
    const membership = await groupsOf([source('b', 'a'), later('c', 'a')], {});
    expect(membership?.groups).toEqual(['a', 'b', 'c']);
    expect(membership?.sources.map(({ groups }) => groups)).toEqual([
      ['b', 'a'],
      ['c', 'a'],
    ]);
  });

  test('with `first` those of the first that has any', async () => {
    const membership = await groupsOf([source(), later('b'), source('c')], { combine: 'first' });
    expect(membership?.groups).toEqual(['b']);
    expect(membership?.sources).toHaveLength(2);
  });

  test('a claimed name is looked up where the configuration names its source, and nowhere else', async () => {
    expect((await groupsOf([source('a')], {}, claimed))?.sources).toEqual([
      {
        source: 'file',
        groups: [],
        note: 'the user is only a claim of the client (header); userGroups.claimedUsers does not name it',
      },
    ]);
    expect((await groupsOf([source('a')], { claimedUsers: ['basic'] }, claimed))?.groups).toEqual([]);
    expect((await groupsOf([source('a')], { claimedUsers: ['header'] }, claimed))?.groups).toEqual(['a']);
  });

  test.each([
    [{ groups: ['a', 'b'] }, {}, { groups: ['a', 'b'] }],
    [{ groups: 'a, b,,a' }, {}, { groups: ['a', 'b'] }],
    [{ groups: 'a b' }, { delimiter: ' ' }, { groups: ['a', 'b'] }],
    [{ realm_access: { roles: ['a'] } }, { claim: 'realm_access.roles' }, { groups: ['a'] }],
    [{ 'https://x.example/g': ['a'] }, { claim: 'https://x.example/g' }, { groups: ['a'] }],
    [{ groups: [1, null, ' ', 'a\n', 'b\0b', 'x'.repeat(600), 'c'] }, {}, { groups: ['a', 'c'] }],
    [{}, {}, { groups: [], note: 'there is no claim groups' }],
    [{ groups: 7 }, {}, { groups: [], note: 'the claim groups is neither a list nor a text' }],
    [{}, { claim: '__proto__.x' }, { groups: [], note: 'there is no claim __proto__.x' }],
  ])('a claim %j, read with %j', (claims, settings, answer) => {
    expect(claimedGroups(claims, { claim: 'groups', delimiter: ',', ...settings })).toEqual(answer);
  });

  test.each([
    ['', ['x', 'partners/x'], ['x'], 'one group is'],
    ['', ['a/b/x', 'a/x', 'a'], ['a'], '2 groups are'],
    ['a/', ['x', 'b/x', 'partners/x'], ['a/x', 'a/partners/x'], 'one group is'],
    // A longer prefix is that of another issuer, or one's own.
    ['a/b/', ['x', 'b/x'], ['a/b/x', 'a/b/b/x'], null],
    ['partners/', ['x', 'x'], ['partners/x'], null],
  ])('an issuer with the prefix %j that names %j gives %j', (prefix, groups, own, left) => {
    const names = new UserNamespace(prefix, ['partners/', 'a/', 'a/b/', '']);
    const note =
      left === null ? {} : { note: `${left} left out: the names begin with the groupPrefix of another issuer` };
    expect(issuerGroups({ groups }, names)).toEqual({ groups: own, ...note });
  });

  test('digests are equal for equal groups alone, whatever names hold', () => {
    const digest = (...groups: string[]) => membershipOf([{ source: 'file', groups }]).digest;
    expect(digest('a', 'b')).toBe(digest('b', 'a'));
    expect(digest('a,b')).not.toBe(digest('a', 'b'));
    expect(digest('a","b')).not.toBe(digest('a', 'b'));
    const many = Array.from({ length: 500 }, (_, index) => `group-${index}`);
    expect(digest(...many)).toBe(digest(...many.toReversed()));
    expect(digest(...many)).not.toBe(digest(...many, 'x'));
    expect(digest(...many).length).toBeLessThan(200);
  });
});
