import { Anchor, Badge, Group, Text } from '@mantine/core';
import { IconPlayerPause, IconPlayerPlay, IconPlus } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useParams } from 'react-router';
import { callWhole } from '../../client/call.ts';
import { useAsked } from '../../client/changes.ts';
import { REPLAYS, replayPath, useClusters, useReplay, useReplays } from '../../client/resources.ts';
import type { QueryReplayReport, ReplayState } from '../../client/types.ts';
import { useOpenInAddress } from '../../components/addressState.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, formatElapsed, MainAction, SmallAction, To } from '../../components/elements.tsx';
import { type Fact, FactList } from '../../components/facts.tsx';
import { type Field, RecordForm, type Values } from '../../components/forms.tsx';
import { EmptyState, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { ClusterNames, DigestName, QueryId } from '../../components/names.tsx';
import { notifyWritten } from '../../components/notify.tsx';
import { NotOpened, onlyAdministrators } from '../../components/ownership.tsx';
import { useRole } from '../../session/session.ts';
import { DeclaringResource } from '../groups/groupParts.tsx';
import { changeText } from '../workload/WorkloadPage.tsx';

const forms = ['new'] as const;

/** Replays: recorded queries on two clusters, with progress and result. */
export default function ReplaysPage() {
  const replays = useReplays();
  const isAdmin = useRole('ADMIN');
  const [opened, setOpened] = useOpenInAddress(forms);
  const open = () => setOpened({ kind: 'new', key: '' });
  const close = () => setOpened(null);
  const empty = 'There is no replay. A replay runs recorded queries on two clusters and compares results.';
  return (
    <PageFrame title="Replays" actions={isAdmin && <MainAction label="New replay" icon={IconPlus} onClick={open} />}>
      <RequestState query={replays} label="Loading replays">
        {(rows) => (
          <Framed>
            <DataTable {...{ label: 'Replays', columns, rows, rowId: nameOf, empty }} />
          </Framed>
        )}
      </RequestState>
      {opened !== null && isAdmin && <NewReplay onClose={close} />}
      {opened !== null && !isAdmin && <NotOpened what="A replay" why={onlyAdministrators} onClose={close} />}
    </PageFrame>
  );
}

const nameOf = ({ namespace, name }: Pick<ReplayState, 'namespace' | 'name'>): string => `${namespace}/${name}`;
const clustersOf = ({ spec }: ReplayState) => [spec.control, spec.candidate].map(String);

const columns: readonly Column<ReplayState>[] = [
  {
    id: 'name',
    header: 'Replay',
    value: nameOf,
    cell: (at) => <To address={`/replays/${nameOf(at)}`}>{nameOf(at)}</To>,
  },
  { id: 'clusters', header: 'Control, candidate', cell: (replay) => <ClusterNames names={clustersOf(replay)} /> },
  { id: 'state', header: 'State', cell: (replay) => <Progress replay={replay} /> },
  { id: 'verdicts', header: 'Verdicts', cell: verdictsText },
  { id: 'result', header: 'Result', cell: ({ progress }) => <Verdict verdict={String(progress?.verified ?? null)} /> },
];

interface ReplayProps {
  readonly replay: ReplayState;
}

/** State of a replay with the number of replayed queries, and its reason. */
function Progress({ replay: { progress, inForce, message } }: ReplayProps) {
  const { state = 'waiting', selected, replayed } = progress ?? {};
  const count = selected === undefined ? '' : `, ${replayed?.queries ?? 0} of ${selected.queries} queries`;
  return (
    <div>
      <Text size="sm">{inForce ? `${state}${count}` : 'not accepted'}</Text>
      <Faint className={classes.breaking}>{inForce && progress !== null ? progress.message : message}</Faint>
    </div>
  );
}

/** Colors and texts of verdicts on statements and, as `verified` has them, on replays. */
const looks: Readonly<Record<string, readonly [color: string, text: string]>> = {
  FailedOnCandidate: ['red', 'failed on the candidate'],
  Different: ['red', 'different'],
  Slower: ['orange', 'slower'],
  NonDeterministic: ['yellow', 'not deterministic'],
  NotComparable: ['gray', 'not comparable'],
  Same: ['green', 'same'],
  true: ['green', 'verified'],
  false: ['red', 'not verified'],
  null: ['gray', 'not ended'],
};

function Verdict({ verdict }: { readonly verdict: string }) {
  const [color, text] = looks[verdict] ?? ['gray', verdict];
  return (
    <Badge variant="light" miw="max-content" color={color}>
      {text}
    </Badge>
  );
}

/** Numbers of queries by verdict, without verdicts that no query has. */
function verdictsText({ progress }: ReplayState): string {
  const counts = Object.entries(progress?.verdicts ?? {}).filter(([, count]) => count > 0);
  return counts.map(([verdict, count]) => `${count} ${looks[verdict]?.[1]}`).join(', ') || '–';
}

const [LAST, PERCENT] = ['from.history.last', 'from.live.percent'];
const [SECRET, USER] = ['replayAs.credentialsSecretRef.name', 'replayAs.username'];
const initial: Values = { namespace: 'default', [LAST]: '24h', suspend: false };

/** Form of a new replay. */
function NewReplay({ onClose }: { readonly onClose: () => void }) {
  const client = useQueryClient();
  const clusters = useClusters().data ?? [];
  const options = clusters.map(({ name }) => ({ value: name, label: name }));
  const required = { required: true, missing: 'This field is required.' } as const;
  const fields: readonly Field[] = [
    { name: 'name', label: 'Name', kind: 'text', ...required },
    { name: 'namespace', label: 'Namespace', kind: 'text', ...required },
    { name: 'control', label: 'Control', kind: 'choice', options, description: 'Queries of its group.', ...required },
    { name: 'candidate', label: 'Candidate', kind: 'choice', options, description: 'It is verified.', ...required },
    { name: LAST, label: 'Queries of the last', kind: 'text', description: 'Such as 24h.' },
    { name: PERCENT, label: 'Or percent of live reads', kind: 'number', description: 'Repeated as they end.' },
    { name: SECRET, label: 'Secret of the account', kind: 'text', description: 'With username and password.' },
    { name: USER, label: 'Or its user name', kind: 'text', description: 'It may only read.' },
    { name: 'suspend', label: 'Show the expected cost first, and send nothing', kind: 'flag' },
  ];
  const save = async (values: Values, force: boolean) => {
    const text = (name: string) => String(values[name] ?? '').trim() || undefined;
    const [namespace = '', name = ''] = [text('namespace'), text('name')];
    // Others may read catalogs that these clusters do not have.
    const routingGroups = clusters
      .filter(({ name: each }) => each === text('control'))
      .map((each) => each.routingGroup);
    const from =
      values[PERCENT] == null
        ? { history: { last: text(LAST), routingGroups } }
        : { live: { percent: values[PERCENT], routingGroups } };
    const secret = text(SECRET);
    const body = {
      ...{ control: text('control'), candidate: text('candidate'), suspend: values.suspend },
      from,
      replayAs: { username: text(USER), credentialsSecretRef: secret && { name: secret } },
    };
    const path = `${replayPath({ namespace, name })}?force=${force}`;
    const written = await callWhole(path, { method: 'PUT', body });
    await client.invalidateQueries({ queryKey: REPLAYS });
    notifyWritten(`${name} is declared.`, written);
  };
  return (
    <RecordForm
      {...{ fields, onClose, title: 'New replay', action: 'Start', values: initial, note: null, onSave: save }}
    />
  );
}

/** One replay: progress, coverage, verdicts, and for administrators the report by digest. */
export function ReplayPage() {
  const { namespace = '', name = '' } = useParams();
  const isAdmin = useRole('ADMIN');
  const query = useReplay({ namespace, name }, isAdmin);
  const missing = <EmptyState title={`There is no replay ${namespace}/${name}.`} />;
  const actions = isAdmin && query.data !== undefined && query.error === null;
  return (
    <PageFrame title={`Replay ${namespace}/${name}`} actions={actions && <Switch replay={query.data.replay} />}>
      <RequestState query={query} label="Loading the replay" missing={missing}>
        {({ replay, digests }) => (
          <>
            <Framed>
              <FactList facts={factsOf(replay)} />
            </Framed>
            {digests === null ? (
              <Faint size="sm">Only administrators see the report, as it names users.</Faint>
            ) : (
              <Report replay={replay} digests={digests} />
            )}
          </>
        )}
      </RequestState>
    </PageFrame>
  );
}

function factsOf(replay: ReplayState): readonly Fact[] {
  const { coverage, recorded, selected, replayed, excluded = {} } = replay.progress ?? {};
  // Such as `not read`.
  const words = (reason: string) => reason.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const reasons = Object.entries(excluded).map(([reason, { queries }]) => `${queries} ${words(reason)}`);
  const cost = (text: string, share: typeof selected) =>
    share && `${formatElapsed(share.cpuMillis)} of CPU time${text}`;
  return [
    ['State', <Progress key="state" replay={replay} />],
    ['Result', <Verdict key="result" verdict={String(replay.progress?.verified ?? null)} />],
    ['Verdicts', verdictsText(replay)],
    ['Control, candidate', <ClusterNames key="clusters" names={clustersOf(replay)} />],
    ['Recorded', recorded && `${recorded.queries} queries, ${cost('', recorded)}`],
    ['Coverage', coverage && `${coverage.queries} % of these queries, ${coverage.cpu} % of their CPU time`],
    ['Not replayed', reasons.join(', ') || undefined],
    ['Expected cost', cost(' on each cluster', selected)],
    ['Cost so far', cost(' on both', replayed)],
    ['Declared by', <DeclaringResource key="by" kind="QueryReplay" listedAs={nameOf(replay)} state={replay} />],
  ];
}

/** Stops or continues a replay that has not ended. */
function Switch({ replay }: ReplayProps) {
  const isHeld = replay.resource.suspended;
  const [label, text] = isHeld
    ? ['Continue', 'Its queries are sent to both clusters.']
    : ['Stop', 'Queries that run end; results so far stay. The replay can be continued.'];
  const suspend = useAsked<ReplayState>(({ name }) => ({ title: `${label} ${name}?`, text, action: label }), {
    write: ({ spec, version, ...of }) =>
      callWhole(replayPath(of), { method: 'PUT', body: { ...spec, suspend: !isHeld, version } }),
    keys: [REPLAYS],
    done: ({ name }) => `${name} is ${isHeld ? 'continued' : 'stopped'}.`,
    failed: ({ name }) => `${name} could not be changed`,
  });
  if (!isHeld && replay.progress?.verified != null) return null;
  return (
    <SmallAction label={label} icon={isHeld ? IconPlayerPlay : IconPlayerPause} onClick={() => void suspend(replay)} />
  );
}

type Digest = QueryReplayReport['digests'][number];

/** Verdicts by digest, the worst first. */
function Report({ replay, digests }: ReplayProps & { readonly digests: readonly Digest[] }) {
  const rowId = ({ digest }: Digest) => digest;
  return (
    <>
      <Framed>
        <DataTable
          {...{ label: 'Verdicts', columns: digestColumns, rows: digests, rowId, empty: 'No query was replayed.' }}
        />
      </Framed>
      <Group gap="md">
        {['JUnit', 'Markdown'].map((format) => (
          <Anchor key={format} href={`${replayPath(replay)}/report?format=${format.toLowerCase()}`} download size="sm">
            {format}
          </Anchor>
        ))}
      </Group>
    </>
  );
}

const digestColumns: readonly Column<Digest>[] = [
  { id: 'verdict', header: 'Verdict', cell: ({ verdict }) => <Verdict verdict={verdict} /> },
  {
    ...{ id: 'digest', header: 'Statement' },
    cell: ({ digest, reason, example: { candidateError } }) => (
      <div>
        <DigestName name={digest} />
        {reason !== candidateError && <Faint className={classes.why}>{reason}</Faint>}
      </div>
    ),
  },
  { id: 'queries', header: 'Queries', value: ({ queries }) => queries },
  {
    id: 'control',
    header: 'Control',
    cell: ({ example, controlCpuMillis }) => side(controlCpuMillis, example.controlError),
  },
  {
    ...{ id: 'candidate', header: 'Candidate', value: ({ candidateCpuMillis }) => candidateCpuMillis },
    cell: ({ example, controlCpuMillis: before, candidateCpuMillis: cpu }) =>
      side(cpu, example.candidateError, changeText(cpu, before)),
  },
  { id: 'example', header: 'Example', cell: ({ example: { queryId } }) => <QueryId id={queryId} /> },
];

/** CPU time and error of a statement on one of both clusters. @param change of the CPU time */
const side = (cpu: number, error: string | null, change = '') => (
  <div>
    <Text size="sm">{`${formatElapsed(cpu)} ${change}`}</Text>
    <Text size="xs" c="red" className={classes.why ?? ''}>
      {error}
    </Text>
  </div>
);
