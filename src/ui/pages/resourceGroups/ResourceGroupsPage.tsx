import { Alert, Button, Group, Paper, Text, TextInput, Title } from '@mantine/core';
import { IconInfoCircle, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { type FormEvent, useCallback, useMemo, useState } from 'react';
import { useSearchParams } from 'react-router';
import { ApiError, isMissing } from '../../client/call.ts';
import { type GroupsChange, useChange } from '../../client/changes.ts';
import { type ResourceGroups, useResourceGroups } from '../../client/resources.ts';
import type { DeclaredGroups, PropertyView, SelectorView } from '../../client/types.ts';
import { type OpenInAddress, useOpenInAddress } from '../../components/addressState.ts';
import { IconAction, MainAction } from '../../components/elements.tsx';
import { RecordForm } from '../../components/forms.tsx';
import { EmptyState, PageFrame, RequestState } from '../../components/frame.tsx';
import { confirm, notifyFailed, notifyWritten } from '../../components/notify.tsx';
import { NotOpened, onlyAdministrators } from '../../components/ownership.tsx';
import { useRole } from '../../session/session.ts';
import {
  type Declarations,
  DeclaredBy,
  DeclaredNote,
  DeclaringResources,
  declarationsOf,
  groupsKind,
  nameOf,
} from './declarations.tsx';
import { ExplainPanel } from './ExplainPanel.tsx';
import { type FormName, formOf, forms, recordName, selectorKey } from './forms.ts';
import { ResourceGroupTree, type TreeActions } from './GroupTree.tsx';
import classes from './resourceGroups.module.css';

/** Resource Groups: the tree with its selectors, global properties, and their database. */
export default function ResourceGroupsPage() {
  const [parameters, setParameters] = useSearchParams();
  const database = parameters.get('useSchema') ?? '';
  const query = useResourceGroups(database);
  const mayWrite = useRole('ADMIN');
  const [opened, setOpened] = useOpenInAddress(forms);
  const { mutateAsync } = useChange(database);
  const store = useCallback(
    async (what: string, change: GroupsChange) => {
      notifyWritten(`${what}.`, await mutateAsync(change));
    },
    [mutateAsync],
  );
  // Stable objects while nothing changed, so that the tree is not rendered again.
  const declared = query.data?.declared;
  const declarations = useMemo(() => declarationsOf(declared ?? []), [declared]);
  const selectors = query.data?.selectors;
  const actions = useMemo(
    () => actionsOf({ store, declarations, selectors: selectors ?? [], open: setOpened }),
    [store, declarations, selectors, setOpened],
  );
  const openNew = (kind: FormName) => setOpened({ kind, key: '' });
  const addRoot = <MainAction label="Add a resource group" icon={IconPlus} onClick={() => openNew('newGroup')} />;
  const isOff = isMissing(query.error) && database === '';
  return (
    <PageFrame title="Resource Groups" actions={mayWrite && !isOff ? addRoot : undefined}>
      {!isOff && (
        <DatabaseChoice
          key={database}
          database={database}
          onChoose={(name) => setParameters(name === '' ? {} : { useSchema: name })}
        />
      )}
      {isOff ? (
        <Alert color="blue" icon={<IconInfoCircle aria-hidden />} title="Switched off">
          resourceGroups.enabled is false: this gateway keeps no resource groups.
        </Alert>
      ) : (
        <RequestState query={query} label="Loading resource groups">
          {(data) => (
            <>
              <DeclaringResources declarations={declarations} />
              {data.groups.length === 0 ? (
                <EmptyState title="There are no resource groups in this database." />
              ) : (
                <>
                  <ResourceGroupTree
                    groups={data.groups}
                    selectors={data.selectors}
                    declarations={declarations}
                    actions={mayWrite ? actions : null}
                  />
                  <ExplainPanel
                    key={environmentsOf(data).join()}
                    database={database}
                    environments={environmentsOf(data)}
                  />
                </>
              )}
              <Properties
                properties={data.properties}
                declarations={declarations}
                mayWrite={mayWrite}
                onAdd={() => openNew('newProperty')}
                onEdit={({ name }) => setOpened({ kind: 'property', key: name })}
                onDelete={({ name }) =>
                  void remove(store, {
                    what: name,
                    effect: 'CPU limits of groups have no effect without it.',
                    declared: declarations.ofProperty(name),
                    change: { path: 'deleteGlobalProperty', data: { name } },
                  })
                }
              />
              {opened !== null && (
                <OpenedForm
                  key={`${database} ${opened.kind} ${opened.key}`}
                  {...{ opened, data, declarations, store, mayWrite }}
                  onClose={() => setOpened(null)}
                />
              )}
            </>
          )}
        </RequestState>
      )}
    </PageFrame>
  );
}

function environmentsOf({ groups }: ResourceGroups): readonly string[] {
  return [...new Set(groups.flatMap(({ environment }) => environment ?? []))].sort();
}

interface DatabaseChoiceProps {
  readonly database: string;
  readonly onChoose: (name: string) => void;
}

function DatabaseChoice({ database, onChoose }: DatabaseChoiceProps) {
  const [name, setName] = useState(database);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onChoose(name.trim());
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Database"
          description="Another one of the same server (useSchema)"
          placeholder="the gateway's own"
          className={classes.database ?? ''}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Group>
    </form>
  );
}

interface PropertiesProps {
  readonly properties: readonly PropertyView[];
  readonly declarations: Declarations;
  readonly mayWrite: boolean;
  readonly onAdd: () => void;
  readonly onEdit: (property: PropertyView) => void;
  readonly onDelete: (property: PropertyView) => void;
}

function Properties({ properties, declarations, mayWrite, onAdd, onEdit, onDelete }: PropertiesProps) {
  return (
    <Paper withBorder p="sm" component="section" aria-label="Global properties">
      <Title order={2}>Global properties</Title>
      {properties.length === 0 && (
        <Text size="sm" mt="xs">
          cpu_quota_period is not set: CPU limits have no effect.
        </Text>
      )}
      {properties.map((property) => (
        <Group key={property.name} gap="xs" mt="xs">
          <Text size="sm">
            {property.name} = {property.value ?? 'null'}
          </Text>
          <DeclaredBy declared={declarations.ofProperty(property.name)} />
          {mayWrite && (
            <>
              <IconAction label={`Edit ${property.name}`} icon={IconPencil} onClick={() => onEdit(property)} />
              <IconAction label={`Delete ${property.name}`} icon={IconTrash} onClick={() => onDelete(property)} />
            </>
          )}
        </Group>
      ))}
      {mayWrite && properties.length === 0 && (
        <Button size="xs" variant="default" mt="xs" onClick={onAdd}>
          Set cpu_quota_period
        </Button>
      )}
    </Paper>
  );
}

interface OpenedFormProps {
  readonly opened: OpenInAddress<FormName>;
  readonly data: ResourceGroups;
  readonly declarations: Declarations;
  readonly store: Store;
  readonly mayWrite: boolean;
  readonly onClose: () => void;
}

function OpenedForm({ opened, data, declarations, store, mayWrite, onClose }: OpenedFormProps) {
  // The state when the form was opened: others may change or delete it meanwhile.
  const [form] = useState(() => formOf(opened, data, declarations));
  const what = recordName(opened, form);
  if (!mayWrite) return <NotOpened what={what} why={onlyAdministrators} onClose={onClose} />;
  if (form === null) return <NotOpened what={what} onClose={onClose} />;
  const { declared, done, changeOf, ...shown } = form;
  return (
    <RecordForm
      {...shown}
      note={<DeclaredNote declared={declared} />}
      onSave={(values, force) => store(done(values), { ...changeOf(values), force })}
      onClose={onClose}
    />
  );
}

type Store = (what: string, change: GroupsChange) => Promise<void>;

interface Removal {
  readonly what: string;
  readonly effect: string;
  readonly declared: DeclaredGroups | null;
  readonly change: GroupsChange;
}

/** Deletes a record after a confirmation; takes over fields of other managers only after another one. */
async function remove(store: Store, { what, effect, declared, change }: Removal): Promise<void> {
  const owned =
    declared === null
      ? ''
      : ` The ${groupsKind} ${nameOf(declared)} declares it: where a GitOps controller manages that, it will create it again.`;
  const question = { title: `Delete ${what}?`, text: `${effect}${owned}`, action: 'Delete', dangerous: true };
  if (!(await confirm(question))) return;
  const attempt = async (force: boolean): Promise<void> => {
    try {
      await store(`${what} is deleted`, { ...change, force });
    } catch (error) {
      const isOwned = error instanceof ApiError && error.code === 'EG_FIELD_OWNED' && !force;
      if (!isOwned) return notifyFailed(`${what} could not be deleted`, error);
      const owners = error.owners.map(({ field, manager }) => `${field}: ${manager}`).join('; ');
      const text = `Nothing was deleted: others own these fields (${owners}). Change them there, or take them over: the other manager may set them again.`;
      const action = 'Take over and delete';
      if (await confirm({ title: `${action} ${what}?`, text, action, dangerous: true })) await attempt(true);
    }
  };
  await attempt(false);
}

interface ActionParts {
  readonly store: Store;
  readonly declarations: Declarations;
  readonly selectors: readonly SelectorView[];
  readonly open: (opened: OpenInAddress<FormName>) => void;
}

function actionsOf({ store, declarations, selectors, open }: ActionParts): TreeActions {
  return {
    addGroup: ({ resourceGroupId }) => open({ kind: 'newGroup', key: String(resourceGroupId) }),
    editGroup: ({ resourceGroupId }) => open({ kind: 'group', key: String(resourceGroupId) }),
    deleteGroup: ({ resourceGroupId, name }) =>
      void remove(store, {
        what: name,
        effect: 'Queries that only its selectors took are refused by the engines.',
        declared: declarations.ofGroup(resourceGroupId),
        change: { path: 'deleteResourceGroup', data: { resourceGroupId } },
      }),
    addSelector: ({ resourceGroupId }) => open({ kind: 'newSelector', key: String(resourceGroupId) }),
    editSelector: (selector) => open({ kind: 'selector', key: selectorKey(selectors, selector) }),
    deleteSelector: (selector) =>
      void remove(store, {
        what: 'the selector',
        effect: 'Queries that it took go to the next selector that matches.',
        declared: declarations.ofGroup(selector.resourceGroupId),
        change: { path: 'deleteSelector', data: selector },
      }),
  };
}
