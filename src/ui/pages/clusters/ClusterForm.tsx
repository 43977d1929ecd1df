import { useState } from 'react';
import { ApiError } from '../../client/apiError.ts';
import type { ClusterState } from '../../client/types.ts';
import { Notice } from '../../components/elements.tsx';
import { NotOpened, onlyAdministrators } from '../../components/ownership.tsx';
import { type Field, RecordForm, type Values } from '../../components/RecordForm.tsx';
import { useRole } from '../../session/session.ts';
import { discoveredText } from './clusterTexts.ts';
import { DeletedMeanwhile, useSave } from './switching.ts';

interface ClusterFormProps {
  /** Null: a new cluster. */
  readonly cluster: ClusterState | null;
  readonly isDeleted: boolean;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** Form to add or change a cluster. */
export function ClusterForm({ cluster, isDeleted: isGone, groups, onClose }: ClusterFormProps) {
  const isNew = cluster === null;
  const save = useSave();
  // A save asks before the page knows the current state.
  const [wasMissed, setMissed] = useState(false);
  const isDeleted = isGone || wasMissed;
  const values = {
    name: cluster?.name ?? null,
    routingGroup: cluster?.routingGroup ?? null,
    proxyTo: cluster?.proxyTo ?? null,
    // Empty if it only repeats the address.
    externalUrl: cluster?.externalUrl === cluster?.proxyTo ? null : (cluster?.externalUrl ?? null),
    active: cluster?.active ?? true,
  };
  const store = async (edited: Values, force: boolean) => {
    const text = (name: keyof typeof values) => String(edited[name] ?? '').trim();
    const written = {
      name: String(edited.name),
      routingGroup: String(edited.routingGroup),
      proxyTo: text('proxyTo'),
      externalUrl: text('externalUrl') || null,
      active: edited.active === true,
    };
    try {
      await save.mutateAsync({ cluster: written, isNew: isNew || isDeleted, force });
      return true;
    } catch (error) {
      // Another user added it meanwhile.
      if (error instanceof ApiError && error.code === 'EG_CONFLICT') setMissed(false);
      if (!(error instanceof DeletedMeanwhile)) throw error;
      setMissed(true);
      return false;
    }
  };
  const note = isDeleted && (
    <Notice tone="error" color="yellow" title={`${cluster?.name} was deleted meanwhile`}>
      Nothing was stored. Cancel, or add it again as it stands here.
    </Notice>
  );
  return (
    <RecordForm
      title={isNew ? 'Add a backend' : `Edit ${cluster.name}`}
      action={isNew ? 'Add' : isDeleted ? 'Add it again' : 'Save'}
      fields={fieldsOf(isNew, groups)}
      {...{ values, note, onClose }}
      onSave={store}
    />
  );
}

const fieldsOf = (isNew: boolean, groups: readonly string[]): readonly Field[] => [
  {
    ...{ name: 'name', label: 'Name', kind: 'text', required: true, readOnly: !isNew, missing: 'Enter a name.' },
    ...(isNew ? {} : { description: 'The name of a backend cannot be changed.' }),
  },
  {
    ...{ name: 'routingGroup', label: 'Routing group', kind: 'suggestion', required: true },
    options: groups.map((group) => ({ value: group, label: group })),
    missing: 'Enter a routing group.',
  },
  {
    ...{ name: 'proxyTo', label: 'URL', kind: 'text', required: true, description: 'Where requests are forwarded to' },
    placeholder: 'http://engine.example:8080',
    missing: 'Enter the URL that requests are forwarded to.',
  },
  {
    ...{ name: 'externalUrl', label: 'External URL', kind: 'text' },
    description: 'The link for people, where it is another one',
  },
  { name: 'active', label: 'Takes new queries', kind: 'flag' },
];

interface OpenedFormProps {
  readonly name: string;
  /** Undefined: no cluster has this name (any more). */
  readonly cluster: ClusterState | undefined;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** The form of the cluster in the page's address. Another name needs another component. */
export function OpenedForm({ name, cluster, groups, onClose }: OpenedFormProps) {
  const mayWrite = useRole('ADMIN');
  // The state when the form was opened: the cluster may be deleted meanwhile.
  const [begun] = useState(cluster);
  const what = `Backend ${name}`;
  if (!mayWrite) return <NotOpened what={what} why={onlyAdministrators} onClose={onClose} />;
  if (begun === undefined) return <NotOpened what={what} onClose={onClose} />;
  const why = discoveredText(begun) ?? (begun.routed ? undefined : 'It is not routed: its resource is not accepted.');
  if (why !== undefined) return <NotOpened what={what} why={why} onClose={onClose} />;
  return <ClusterForm cluster={begun} isDeleted={cluster === undefined} groups={groups} onClose={onClose} />;
}
