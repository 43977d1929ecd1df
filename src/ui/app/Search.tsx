import { Button, Combobox, Kbd, Modal, Text, TextInput, useCombobox } from '@mantine/core';
import { useDebouncedValue, useDisclosure, useHotkeys } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { isMissing } from '../client/call.ts';
import { getter, isGatewayId, RULES, wholeQuery } from '../client/resources.ts';
import type { ClusterState, RuleInventory } from '../client/types.ts';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../components/names.tsx';
import { useRole, useSees } from '../session/session.ts';
import type { Page } from './pages.ts';
import classes from './Search.module.css';

/** Finds queries by id, clusters, rules, groups and pages. Ctrl-K opens it everywhere. */
export function Search({ pages }: { readonly pages: readonly Page[] }) {
  const [opened, { open, close }] = useDisclosure(false);
  useHotkeys([['mod+K', open]], []);
  return (
    <>
      <Button
        variant="default"
        size="xs"
        classNames={{ section: classes.icon ?? '' }}
        leftSection={<IconSearch size={16} aria-hidden />}
        aria-keyshortcuts="Control+K"
        onClick={open}
      >
        <span className={classes.label}>Search</span>
        <Kbd size="xs" className={classes.hint ?? ''} aria-hidden>
          Ctrl K
        </Kbd>
      </Button>
      <Modal opened={opened} onClose={close} title="Search" size="lg" zIndex={ABOVE_DIALOGS}>
        <SearchField pages={pages} onClose={close} />
      </Modal>
    </>
  );
}

/** Other dialogs have 200. The question about unsaved edits comes after the search is closed. */
const ABOVE_DIALOGS = 250;
/** Delay before a typed id is looked up, in milliseconds. */
const TYPING_MS = 200;

function SearchField({ pages, onClose }: { readonly pages: readonly Page[]; readonly onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [settled] = useDebouncedValue(text, TYPING_MS);
  const combobox = useCombobox({ opened: true, onDropdownClose: onClose });
  const navigate = useNavigate();
  const hits = useHits(pages, text.trim(), settled.trim());
  const kinds = [...new Set(hits.map(({ kind }) => kind))];
  const choose = (address: string) => {
    // The dialog is shown while it closes.
    field.current?.blur();
    onClose();
    void navigate(address);
  };
  return (
    <Combobox store={combobox} onOptionSubmit={choose}>
      <Combobox.EventsTarget>
        <TextInput
          ref={field}
          data-autofocus
          aria-label="Search"
          placeholder="Query id, backend, rule, group or page"
          leftSection={<IconSearch size={16} aria-hidden />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            combobox.selectFirstOption();
          }}
        />
      </Combobox.EventsTarget>
      <div className={classes.results}>
        <Combobox.Options aria-label="Results">
          {kinds.map((kind) => (
            <Combobox.Group key={kind} label={kind}>
              {hits
                .filter((hit) => hit.kind === kind)
                .map((hit) => (
                  <HitOption key={hit.address} hit={hit} />
                ))}
            </Combobox.Group>
          ))}
          {hits.length === 0 && <Combobox.Empty>Nothing of this name.</Combobox.Empty>}
        </Combobox.Options>
      </div>
    </Combobox>
  );
}

function HitOption({ hit: { address, name, about } }: { readonly hit: Hit }) {
  return (
    <Combobox.Option value={address}>
      <Text size="sm" className={classes.name}>
        {name}
      </Text>
      {about !== '' && (
        <Text size="xs" c="dimmed" className={classes.name}>
          {about}
        </Text>
      )}
    </Combobox.Option>
  );
}

interface Hit {
  readonly kind: 'Queries' | 'Pages' | 'Backends' | 'Routing groups' | 'Rules' | 'History';
  readonly name: string;
  /** Additional text; may be empty. */
  readonly about: string;
  readonly address: string;
}

const MAX_HITS = 8;
/** Maximum age of lists while the search is open, in milliseconds. */
const LIST_AGE_MS = 30_000;

/**
 * Finds what a text matches and the user may see. An empty text matches all pages.
 * @param settled the debounced text; used to look up queries
 */
function useHits(pages: readonly Page[], text: string, settled: string): readonly Hit[] {
  const seesClusters = useSees('cluster');
  const seesGroups = useSees('limits');
  const seesHistory = useSees('history');
  const mayListRules = useRole('ADMIN');
  const seesRules = useSees('routing-rules') && mayListRules;
  const clusters = useQuery({
    queryKey: ['search', 'clusters'],
    queryFn: getter<readonly ClusterState[]>('/api/clusters'),
    enabled: seesClusters || seesGroups,
    staleTime: LIST_AGE_MS,
  });
  const rules = useQuery({
    queryKey: ['search', ...RULES],
    queryFn: getter<RuleInventory>('/api/rules'),
    enabled: seesRules,
    staleTime: LIST_AGE_MS,
  });
  const queries = useQueryHits(text, settled);
  const wanted = text.toLowerCase();
  const fits = (...texts: readonly string[]) => texts.some((each) => each.toLowerCase().includes(wanted));
  const pageHits = pages
    .filter(({ title }) => fits(title))
    .map(({ title, path }): Hit => ({ kind: 'Pages', name: title, about: '', address: `/${path}` }));
  if (wanted === '') return pageHits;
  const all = clusters.data ?? [];
  const groups = [...new Set(all.flatMap(({ routingGroup }) => (routingGroup === null ? [] : [routingGroup])))];
  return [
    ...queries,
    ...pageHits,
    ...(seesClusters ? all : [])
      .filter(({ name, proxyTo }) => fits(name, proxyTo ?? ''))
      .slice(0, MAX_HITS)
      .map(({ name, routingGroup, status }): Hit => {
        const about = [routingGroup ?? '', status.toLowerCase()].filter(Boolean).join(', ');
        return { kind: 'Backends', name, about, address: clusterAddress(name) };
      }),
    ...(seesGroups ? groups : [])
      .filter((name) => fits(name))
      .slice(0, MAX_HITS)
      .map((name): Hit => ({ kind: 'Routing groups', name, about: '', address: groupAddress(name) })),
    ...(rules.data?.rules ?? [])
      .filter(({ name, description }) => fits(name, description))
      .slice(0, MAX_HITS)
      .map(({ name, description }): Hit => ({ kind: 'Rules', name, about: description, address: ruleAddress(name) })),
    ...(seesHistory && queries.length === 0 ? [historyHit(text)] : []),
  ];
}

const historyHit = (text: string): Hit => ({
  ...{ kind: 'History', name: `Queries whose text has “${text}”`, about: '' },
  address: `/history?text=${encodeURIComponent(text)}`,
});

/** Engine query ids look like `20261123_120000_00001_abcde`; ids of queued queries end with `_queue`. */
function isLikeId(text: string): boolean {
  return /^\d{8}_\d{6}_\d{5}_\w{1,32}$/.test(text) || (isGatewayId(text) && !/\s/.test(text));
}

function useQueryHits(text: string, settled: string): readonly Hit[] {
  const sees = useSees('history');
  const query = useQuery({ ...wholeQuery(settled), enabled: sees && isLikeId(settled) });
  if (!sees || !isLikeId(text)) return [];
  const { data, error } = text === settled ? query : { data: undefined, error: null };
  const about =
    data === undefined
      ? isMissing(error)
        ? 'not in the history that you may see'
        : ''
      : [data.user ?? 'user not known', data.cluster || 'waits for a cluster'].join(', ');
  return [{ kind: 'Queries', name: text, about, address: queryAddress(text) }];
}
