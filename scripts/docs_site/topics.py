"""The pages of the reference: what each is about, and its names in the order in which a reader needs them."""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A page: its file, title and lead, and by module the names on it."""

    file: str
    title: str
    lead: str
    names: dict[str, str]


#: How the pages call the modules whose names are public.
MODULES = {
    "shiftdata": "sd",
    "shiftdata.errors": "errors",
    "shiftdata.evaluation.protocols": "protocols",
    "shiftdata.evaluation.sampling": "sampling",
    "shiftdata.evaluation.metrics": "metrics",
    "shiftdata.evaluation.label_shift": "label_shift",
    "shiftdata.evaluation.meters": "meters",
    "shiftdata.baselines": "baselines",
    "shiftdata.baselines.losses": "losses",
    "shiftdata.bench": "bench",
    "shiftdata.bench.papers": "papers",
}
PROTOCOLS, METRICS = "shiftdata.evaluation.protocols", "shiftdata.evaluation.metrics"
BASELINES, LOSSES = "shiftdata.baselines", "shiftdata.baselines.losses"

TOPICS = (
    Topic(
        "load",
        "Load data",
        "Find a dataset, read its examples or only its metadata, fetch it, check it.",
        {
            "shiftdata": "list_datasets info load_dataset open_dataset read_metadata Metadata metadata_from_table "
            "webdataset fetch verify"
        },
    ),
    Topic(
        "tasks",
        "Tasks",
        "A task is named sets of rows of one dataset, each for training, selection or test. Make one by a "
        "protocol, load its rows, evaluate predictions, export it.",
        {"shiftdata": "task Task export"},
    ),
    Topic(
        "protocols",
        "Protocols",
        "A protocol is the rule that makes a task. `protocol` takes its name; the classes show the parameters "
        "of each, `Protocol` what all of them have.",
        {
            "shiftdata": "protocol rlsbench",
            PROTOCOLS: "Protocol protocols parse_protocol GroupFairness UDA UniDA SCENARIOS LabelShift LeaveOneDomainOut "
            "LeaveOneGroupOut HoldOut DomainBed ClassicDG FlexibleDG Oracle OracleStar Continuous Official Listed "
            "Wilds EvaluateOnly Stream stream_of Where Chain",
        },
    ),
    Topic(
        "samplers",
        "Samplers and label shift",
        "Choose which rows a batch gets; estimate the label shares of an unlabelled target; measure how far "
        "apart two sets of rows are.",
        {
            "shiftdata.evaluation.sampling": "SAMPLERS make_sampler Sampler RowSampler FixedRows Reweighted Batches "
            "CellBatches Ranks cells_of dirichlet_marginal",
            "shiftdata.evaluation.label_shift": "estimate_marginal ESTIMATORS MarginalEstimate reweight "
            "EstimationError LabelShiftWarning",
            "shiftdata.evaluation.meters": "covariate_shift CovariateShift concept_shift_on_features ConceptShift "
            "bounds Bounds",
        },
    ),
    Topic(
        "metrics",
        "Metrics by group",
        "Accuracy of each group, the worst one, and how sure it is. `task.evaluate` uses these; they also take "
        "arrays.",
        {
            METRICS: "group_accuracy GroupAccuracy worst_by_chance align bootstrap_rows Resampling Interval "
            "paired_test failure_points FailurePoints"
        },
    ),
    Topic(
        "more_metrics",
        "Calibration, lines, rankings",
        "What more than one accuracy says: confidence, models compared on clean and shifted rows, rankings of "
        "methods.",
        {
            METRICS: "measure_calibration Calibration risk_coverage RiskCoverage accuracy_line Line Point "
            "agreement_line Agreement ranks rank_agreement RankAgreement spearman selection_leakage"
        },
    ),
    Topic(
        "train",
        "Train and predict",
        "Train a reference method, predict by a model that comes trained, or adapt one to a stream.",
        {
            "shiftdata": "train predict",
            BASELINES: "METHODS Training TRAINING Run load adapt Adaptation Prediction Pretrained Model fit "
            "initial_network DivergedError",
        },
    ),
    Topic(
        "methods",
        "Methods of your own",
        "Subclass `Method`, name it, and `sd.train` and sweeps know it; a `Trainer` gives it rows and steps.",
        {
            BASELINES: "Method method Hyper Batch Data Trainer Stage Wrapper make_method method_class Source "
            "source_of"
        },
    ),
    Topic(
        "losses",
        "Losses: groups and domains",
        "Functions of tensors for a loop of your own: plain losses, worst groups, features and gradients that "
        "agree between domains.",
        {
            "shiftdata": "losses",
            LOSSES: "cross_entropy cross_entropies mean group_means rows_of_each GroupDRO jtt_weights dfr eqrm coral "
            "mmd irm vrex Fishr sd mldg whitening rsc_mask StableNet check_1d exactly",
        },
    ),
    Topic(
        "losses_adaptation",
        "Losses: adaptation",
        "Losses that take unlabelled rows of a target, also one with other classes than the source.",
        {
            LOSSES: "dann cdan_map reverse_gradient reversal_schedule mcd jdot jdot_cost exact_transport "
            "balanced_transport unbalanced_plan unbalanced_scaling ClassWeights class_weights entropy tent "
            "pseudo_label fixmatch sentry sentry_balance RecentShares uan_scores uan_weights osbp ovanet "
            "ovanet_unknown UniOT with_unknown"
        },
    ),
    Topic(
        "losses_training",
        "Losses: mixing, averages, pretraining",
        "Mix rows and styles, average weights along a training, and pretrain without labels.",
        {
            LOSSES: "mixup mixup_losses partners mixstyle style_mixed content_swapped uniform_cross_entropies "
            "amplitude_mix adversarial_step EMA ema_ WeightAverage SWAD ntxent info_nce KeyQueue distillation"
        },
    ),
    Topic(
        "sweeps",
        "Sweeps and reports",
        "Train many methods on many tasks into records; select models and report from these.",
        {
            "shiftdata.bench": "presets read_sweep sweep_of folder_sweep Sweep run_sweep progress_of Progress Records "
            "RULES Rule select Selected Study Chosen report Report"
        },
    ),
    Topic(
        "papers",
        "The papers' numbers",
        "What five papers print, as tables to choose from, rank and compare with results of your own.",
        {
            "shiftdata": "published",
            "shiftdata.bench.papers": "PAPERS citation published_tables PublishedTable Results ranking Ranking",
        },
    ),
    Topic(
        "errors",
        "Errors",
        "Whatever shiftdata raises on purpose; each message says what was given, what is allowed and what to do.",
        {
            "shiftdata.errors": "ShiftdataError InputError NotFoundError MissingExtraError IntegrityError LimitError "
            "ChangedError StorageError LockedError"
        },
    ),
)
