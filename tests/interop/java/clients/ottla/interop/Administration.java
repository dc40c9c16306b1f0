package ottla.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** The admin client. */
final class Administration {
    private final Env env;

    Administration(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("admin_topics", this::topics);
        all.put("admin_topics_by_id", this::topicsById);
        all.put("admin_configs", this::configs);
        all.put("admin_broker_configs", this::brokerConfigs);
        all.put("admin_groups", this::groups);
        all.put("admin_group_offsets", this::groupOffsets);
        all.put("admin_records", this::records);
        all.put("admin_cluster", this::cluster);
        all.put("admin_log_dirs", this::logDirs);
        all.put("admin_elections_and_reassignments", this::elections);
        all.put("admin_config_resources", this::configResources);
        all.put("admin_client_quotas", this::quotas);
        all.put("admin_features", this::features);
    }

    private void topics() throws Exception {
        String topic = env.name("topic");
        var created = env.admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1)
                .configs(Map.of("retention.ms", "123456"))));
        Check.get(created.all());
        Check.same(3, Check.get(created.numPartitions(topic)), "partitions in the answer");
        Check.same(1, Check.get(created.replicationFactor(topic)), "replicas in the answer");
        Check.same("123456", Check.get(created.config(topic)).get("retention.ms").value(), "config in the answer");
        Check.that(Check.get(env.admin.listTopics().names()).contains(topic), "it is listed");
        TopicDescription described = describe(topic);
        Check.same(3, described.partitions().size(), "partitions");
        Check.same(Check.get(created.topicId(topic)), described.topicId(), "topic id");
        Check.that(described.partitions().stream().allMatch(part -> part.leader() != null
                && part.isr().size() == 1 && part.replicas().size() == 1), "each has a leader");
        Check.fails(TopicExistsException.class, () -> create(new NewTopic(topic, 1, (short) 1)));
        Check.fails(InvalidTopicException.class, () -> create(new NewTopic("a b", 1, (short) 1)));
        Check.fails(InvalidReplicationFactorException.class,
                () -> create(new NewTopic(env.name("x"), 1, (short) 9)));
        Check.fails(InvalidPartitionsException.class, () -> create(new NewTopic(env.name("x"), 0, (short) 1)));
        Check.fails(InvalidConfigurationException.class, () -> create(new NewTopic(env.name("x"), 1, (short) 1)
                .configs(Map.of("no.such.config", "1"))));
        String only = env.name("validated");
        Check.get(env.admin.createTopics(List.of(new NewTopic(only, Optional.empty(), Optional.empty())),
                new CreateTopicsOptions().validateOnly(true)).all());
        Check.that(!Check.get(env.admin.listTopics().names()).contains(only), "validate only creates nothing");
        Check.get(env.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
        Check.same(5, describe(topic).partitions().size(), "partitions afterwards");
        Check.fails(InvalidPartitionsException.class,
                () -> Check.get(env.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all()));
        Check.get(env.admin.deleteTopics(List.of(topic)).all());
        Check.fails(UnknownTopicOrPartitionException.class, () -> describe(topic));
        Check.fails(UnknownTopicOrPartitionException.class,
                () -> Check.get(env.admin.deleteTopics(List.of(topic)).all()));
    }

    private void create(NewTopic topic) throws Exception {
        Check.get(env.admin.createTopics(List.of(topic)).all());
    }

    private TopicDescription describe(String topic) throws Exception {
        return Check.get(env.admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
    }

    private void topicsById() throws Exception {
        String topic = env.topic("byid", 2);
        var id = describe(topic).topicId();
        var ids = org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(id));
        Check.same(topic, Check.get(env.admin.describeTopics(ids).allTopicIds()).get(id).name(), "name");
        Check.get(env.admin.deleteTopics(ids).all());
        Check.until("it is gone", () -> {
            try {
                Check.get(env.admin.describeTopics(ids).allTopicIds());
                return false;
            } catch (Exception error) {
                return error.getCause() instanceof UnknownTopicIdException;
            }
        });
    }

    private void configs() throws Exception {
        String topic = env.topic("configs", 1, Map.of("retention.ms", "5000"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Check.same("5000", entry(resource, "retention.ms").value(), "retention.ms");
        Check.same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, entry(resource, "retention.ms").source(), "source");
        Check.that(entry(resource, "segment.bytes").isDefault(), "segment.bytes is a default");
        Check.same(ConfigEntry.ConfigType.LIST, entry(resource, "cleanup.policy").type(), "type");
        alter(resource, new AlterConfigOp(new ConfigEntry("retention.ms", "6000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND));
        Check.same("6000", entry(resource, "retention.ms").value(), "retention.ms");
        Check.same("delete,compact", entry(resource, "cleanup.policy").value(), "cleanup.policy");
        alter(resource, new AlterConfigOp(new ConfigEntry("cleanup.policy", "delete"), AlterConfigOp.OpType.SUBTRACT),
                new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE));
        Check.same("compact", entry(resource, "cleanup.policy").value(), "cleanup.policy");
        Check.that(entry(resource, "retention.ms").isDefault(), "retention.ms is the default again");
        Check.fails(InvalidConfigurationException.class, () -> alter(resource,
                new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)));
        Check.fails(UnknownTopicOrPartitionException.class, () -> entry(
                new ConfigResource(ConfigResource.Type.TOPIC, env.name("absent")), "retention.ms"));
    }

    private ConfigEntry entry(ConfigResource resource, String key) throws Exception {
        Config config = Check.get(env.admin.describeConfigs(List.of(resource)).all()).get(resource);
        return config.get(key);
    }

    private void alter(ConfigResource resource, AlterConfigOp... operations) throws Exception {
        Check.get(env.admin.incrementalAlterConfigs(Map.of(resource, List.of(operations))).all());
    }

    private void brokerConfigs() throws Exception {
        int node = Check.get(env.admin.describeCluster().nodes()).iterator().next().id();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node));
        Check.that(entry(resource, "advertised.listeners") != null, "advertised.listeners");
        Check.that(entry(resource, "log.retention.ms") != null, "log.retention.ms");
        String before = entry(resource, "message.max.bytes").value();
        alter(resource, new AlterConfigOp(new ConfigEntry("message.max.bytes", "2000000"), AlterConfigOp.OpType.SET));
        Check.until("the setting", () -> {
            try {
                return entry(resource, "message.max.bytes").value().equals("2000000");
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        alter(resource, new AlterConfigOp(new ConfigEntry("message.max.bytes", ""), AlterConfigOp.OpType.DELETE));
        Check.until("the setting is back", () -> {
            try {
                return entry(resource, "message.max.bytes").value().equals(before);
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
    }

    private void groups() throws Exception {
        String topic = env.topic("groups", 2);
        String group = env.name("groups");
        env.fill(topic, 2, 10);
        Member member = new Member(env, group, topic, Map.of());
        Check.until("it has read all", () -> member.records.size() == 10);
        var listed = Check.get(env.admin.listGroups().all());
        Check.that(listed.stream().anyMatch(item -> item.groupId().equals(group)
                && item.protocol().equals("consumer")), "it is listed");
        var described = Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
        Check.same(GroupState.STABLE, described.groupState(), "state");
        Check.same("range", described.partitionAssignor(), "assignor");
        Check.same(1, described.members().size(), "members");
        var one = described.members().iterator().next();
        Check.same(2, one.assignment().topicPartitions().size(), "assignment");
        Check.that(one.host().startsWith("/"), "host: " + one.host());
        Check.that(one.clientId().startsWith("consumer"), "client id: " + one.clientId());
        Check.same(2, Check.get(env.admin.describeClassicGroups(List.of(group)).all()).get(group)
                .members().iterator().next().assignment().topicPartitions().size(), "assignment as a classic group");
        Check.fails(GroupNotEmptyException.class,
                () -> Check.get(env.admin.deleteConsumerGroups(List.of(group)).all()));
        Check.fails(GroupSubscribedToTopicException.class, () -> Check.get(env.admin.deleteConsumerGroupOffsets(
                group, Set.of(new TopicPartition(topic, 0))).all()));
        member.stop();
        described = Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
        Check.same(GroupState.EMPTY, described.groupState(), "state");
        Check.get(env.admin.deleteConsumerGroups(List.of(group)).all());
        Check.fails(GroupIdNotFoundException.class,
                () -> Check.get(env.admin.deleteConsumerGroups(List.of(group)).all()));
        Check.fails(GroupIdNotFoundException.class,
                () -> Check.get(env.admin.describeConsumerGroups(List.of(group)).all()));
    }

    private void groupOffsets() throws Exception {
        String topic = env.topic("offsets", 2);
        String group = env.name("offsets");
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        Check.get(env.admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(3, "note"),
                one, new OffsetAndMetadata(4))).all());
        Map<TopicPartition, OffsetAndMetadata> offsets = offsets(group);
        Check.same(3L, offsets.get(zero).offset(), "offset");
        Check.same("note", offsets.get(zero).metadata(), "metadata");
        Check.get(env.admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all());
        Check.same(Set.of(one), offsets(group).keySet(), "partitions that are left");
        Check.get(env.admin.deleteTopics(List.of(topic)).all());
        Check.until("the offsets go with the topic", () -> {
            try {
                return offsets(group).isEmpty();
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(String group) throws Exception {
        return Check.get(env.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
    }

    private void records() throws Exception {
        String topic = env.topic("records", 2);
        env.fill(topic, 2, 40);
        TopicPartition tp = new TopicPartition(topic, 0);
        Check.same(0L, at(tp, OffsetSpec.earliest()).offset(), "earliest");
        Check.same(20L, at(tp, OffsetSpec.latest()).offset(), "latest");
        Check.same(0L, at(tp, OffsetSpec.forTimestamp(0)).offset(), "from a timestamp");
        Check.same(-1L, at(tp, OffsetSpec.forTimestamp(Long.MAX_VALUE)).offset(), "from a late timestamp");
        Check.that(at(tp, OffsetSpec.maxTimestamp()).offset() >= 0, "largest timestamp");
        Check.same(0L, at(tp, OffsetSpec.earliestLocal()).offset(), "earliest local");
        Check.same(-1L, at(tp, OffsetSpec.latestTiered()).offset(), "latest tiered");
        Check.same(12L, Check.get(env.admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(12)))
                .lowWatermarks().get(tp)).lowWatermark(), "low watermark");
        Check.same(12L, at(tp, OffsetSpec.earliest()).offset(), "earliest afterwards");
        Check.fails(OffsetOutOfRangeException.class, () -> Check.get(env.admin.deleteRecords(
                Map.of(tp, RecordsToDelete.beforeOffset(100))).all()));
        Check.same(28, env.values(topic, 2, Map.of()).size(), "records that are left");
        Check.get(env.admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(-1))).all());
        Check.same(20L, at(tp, OffsetSpec.earliest()).offset(), "earliest when all are deleted");
        try (Consumer<String, String> consumer = env.consumer(null)) {
            Check.same(20L, consumer.beginningOffsets(List.of(tp)).get(tp), "beginning");
        }
    }

    private ListOffsetsResultInfo at(TopicPartition tp, OffsetSpec spec) throws Exception {
        return Check.get(env.admin.listOffsets(Map.of(tp, spec)).partitionResult(tp));
    }

    private void cluster() throws Exception {
        var cluster = env.admin.describeCluster();
        Check.same(env.bootstrap.split(",").length, Check.get(cluster.nodes()).size(), "nodes");
        Check.same(22, Check.get(cluster.clusterId()).length(), "length of the cluster id");
        Check.that(Check.get(cluster.controller()) != null, "a controller");
    }

    private void logDirs() throws Exception {
        String topic = env.topic("dirs", 1);
        env.fill(topic, 1, 100);
        var told = Check.get(env.admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        int node = told.partitions().get(0).leader().id();
        var dirs = Check.get(env.admin.describeLogDirs(List.of(node)).allDescriptions()).get(node);
        Check.same(1, dirs.size(), "directories");
        var replica = dirs.values().iterator().next().replicaInfos().get(new TopicPartition(topic, 0));
        Check.that(replica != null && replica.size() > 0, "the partition has a size");
    }

    private void elections() throws Exception {
        String topic = env.topic("elections", 1);
        TopicPartition tp = new TopicPartition(topic, 0);
        var elected = Check.get(env.admin.electLeaders(ElectionType.PREFERRED, Set.of(tp)).partitions());
        Check.that(elected.get(tp).orElseThrow() instanceof ElectionNotNeededException, "election: " + elected);
        Check.same(Map.of(), Check.get(env.admin.listPartitionReassignments(Set.of(tp)).reassignments()),
                "reassignments");
        Check.get(env.admin.electLeaders(ElectionType.PREFERRED, null).partitions());
    }

    private void configResources() throws Exception {
        String topic = env.topic("resources", 1);
        var topics = Check.get(env.admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC),
                new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all());
        Check.that(topics.stream().map(ConfigResource::name).collect(Collectors.toSet()).contains(topic), "the topic");
    }

    private void quotas() throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, env.name("quota")));
        var operation = new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0);
        Check.get(env.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(operation)))).all());
        Check.until("the quota", () -> Map.of("producer_byte_rate", 1_000_000.0).equals(quota(entity)));
        var gone = new ClientQuotaAlteration.Op("producer_byte_rate", null);
        Check.get(env.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(gone)))).all());
        Check.until("no quota", () -> quota(entity) == null);
    }

    private Map<String, Double> quota(ClientQuotaEntity entity) {
        try {
            return Check.get(env.admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).get(entity);
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    private void features() throws Exception {
        var features = Check.get(env.admin.describeFeatures().featureMetadata());
        List<String> names = new ArrayList<>(features.supportedFeatures().keySet());
        Check.that(names.contains("transaction.version"), "features: " + names);
        Check.same((short) 2, features.finalizedFeatures().get("transaction.version").maxVersionLevel(), "its level");
    }
}
