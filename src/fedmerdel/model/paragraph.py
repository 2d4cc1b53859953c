"""What to state of a model in a paper: one paragraph of plain text, with this model's numbers.

Every sentence is about something that was computed or agreed on. What was not done, such as a
check of the model against rows, is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from fedmerdel.inference.check_counts import SURE
from fedmerdel.model.certainty import Certainty
from fedmerdel.model.rates import UNEXPLAINED
from fedmerdel.model.state import ModelState
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.study.guide import no_validation

PAPER = (
    "Rao J, Crowe FL, Marshall T, Richardson S, Kirk PDW. Federated Variational Inference for "
    "Bayesian Mixture Models. Machine Learning for Health (ML4H) 2025, Proceedings of Machine "
    "Learning Research 297:826-863."
)
"""The method, as CITATION.cff has it."""

MISSING = {
    "ignore": "Missing entries were left out of the likelihood, and the rows kept.",
    "level": "Missing entries were a level of their own, of every variable.",
    "error": "No entries of the variables were missing.",
}


def methods_paragraph(model: ModelState, sure: Certainty, alone: bool = False) -> str:
    """Return the paragraph.

    Parameters
    ----------
    model : ModelState
        The model.
    sure : Certainty
        How sure rows drawn from it are of their cluster.
    alone : bool
        Whether it is of one table, fitted without a study.
    """
    parts = [
        *(_one_table(model) if alone else _study(model)),
        *_clusters(model),
        *_certainty(model, sure),
        *_guides(model),
        *_outcomes(model),
        *_covariates(model, alone),
        f"Reference: {PAPER}",
    ]
    return " ".join(parts)


def _software(model: ModelState) -> str:
    return (
        f"a Bayesian mixture of products of {len(model.study.codebook.names)} categorical "
        "variables, by variational inference with the software fedmerdel (version "
        f"{version('fedmerdel')} wrote this), which implements and extends the method of Rao et "
        "al. (2025)"
    )


def _one_table(model: ModelState) -> Iterator[str]:
    yield f"We fitted {_software(model)}; random_state [to be filled in], {_prior(model)}."


def _study(model: ModelState) -> Iterator[str]:
    study, mechanism = model.study, mechanism_for(model.study.policy)
    sites = "one site" if model.n_sites == 1 else f"each of {model.n_sites} sites"
    yield (
        f"At {sites} we fitted {_software(model)}. What all sites agreed on before is the study "
        f"with the identifier {study.hash[:16]} (seed {study.seed}, {_prior(model)})."
    )
    names = ", and the names of the variables that it selected," if study.variable_selection else ""
    hidden = (
        f"; a released 0 stands for {mechanism.zero}, and was filled with what is expected of it"
        if mechanism.smallest > 1
        else ""
    )
    yield from _promise(model, hidden) if study.promise.adds_up else _counts(model, names, hidden)
    if study.weight is not None:
        yield f"Rows were weighted by {study.weight}, and numbers of rows are sums of weights."
    yield MISSING[study.missing]


def _counts(model: ModelState, names: str, hidden: str) -> Iterator[str]:
    policy = model.study.policy
    yield (
        f"Nothing but sums over rows{names} was taken from a site, under the disclosure policy "
        f"{policy.name} ({mechanism_for(policy).rule}{hidden})."
    )
    if model.n_sites > 1 or model.n_rounds:
        after = (
            "no further round followed."
            if not model.n_rounds
            else f"then, in {_count(model.n_rounds, 'round')}, common clusters were sent to the "
            "sites and counted there again."
        )
        yield (
            "From these sums alone, the sites' clusters were merged where that raised the "
            f"evidence lower bound (ELBO); {after}"
        )


def _promise(model: ModelState, hidden: str) -> Iterator[str]:
    """Say what was told where no site's own numbers were."""
    promise, policy = model.study.promise, model.study.policy
    noise = (
        f"with noise of a standard deviation of {promise.noise:g} rows on each total"
        if promise.kind == "sums"
        else f"with noise set by a budget of epsilon = {promise.epsilon:g} and delta = "
        f"{promise.delta:g} over all that was told"
    )
    rounds = f" in {_count(model.n_rounds, 'round')}" if model.n_rounds else ""
    yield (
        f"No site's own numbers were told: only totals over all sites{rounds}, {noise}. The model "
        f"is under the disclosure policy {policy.name} ({mechanism_for(policy).rule}{hidden}). "
        "Clusters were split and merged where the evidence lower bound (ELBO) of the totals rose."
    )


def _prior(model: ModelState) -> str:
    """Return the settings of a fit that a reader needs to repeat it."""
    study = model.study
    prior = study.prior if isinstance(study.prior, str) else "given"
    recipe = "" if study.recipe == "default" else f", recipe {study.recipe}"
    return f"{prior} prior of the levels, alpha {float(model.prior.alpha):g} for weights{recipe}"


def _clusters(model: ModelState) -> Iterator[str]:
    study, shares = model.study, model.rows / model.rows.sum()
    full = model.n_sites == 1 and model.n_clusters >= study.n_components
    yield (
        f"This gave {_count(model.n_clusters, 'cluster')} of {model.rows.sum():,.0f} rows, with "
        f"{_percent(float(shares.min()))} to {_percent(float(shares.max()))} of all rows each. "
        "Their number was not set, but is what the ELBO led to, with room for up to "
        f"{_count(study.n_components, 'cluster')} in a fit"
        f"{', all of which were used: there may be more' if full else ''}."
    )
    if model.elbo is not None:
        yield f"The ELBO is {model.elbo:,.1f} nats, {_of_what(model)}."
    how = (
        "that the sites selected"
        if study.variable_selection
        else "that more probably than not tell the clusters apart"
    )
    yield f"Variables {how}: {len(model.selected)} of {len(study.codebook.names)}."
    unmeasured = np.isnan(model.profile.prevalence).any(axis=1).sum()
    if unmeasured:
        yield (
            f"In {_count(int(unmeasured), 'cluster')} some variables were not measured: no row "
            "there has an entry that was told."
        )


def _of_what(model: ModelState) -> str:
    if model.study.promise.adds_up:
        return "of the totals under the policy"
    if model.n_rounds:
        return "of all rows at the last round"
    changed = mechanism_for(model.study.policy).smallest > 1
    return "of the released counts, not of the rows" if changed else "of all rows"


def _certainty(model: ModelState, sure: Certainty) -> Iterator[str]:
    checks = model.checks
    yield (
        f"Of rows drawn from the model, with entries missing as often as in the tables, "
        f"{_percent(sure.sure)} belong to a cluster with a probability above {SURE}; this is what "
        f"the model expects{', and was not measured on rows' if checks is None else ''}."
    )
    assumed = "That variables are independent within a cluster is an assumption"
    if checks is None:
        yield f"{assumed}, which was not checked here."
        return
    local = model.n_sites > 1 and not model.n_rounds
    yield (
        f"Of the rows themselves, {_percent(checks.sure)} do"
        f"{', in the clusters that their own site had found' if local else ''}."
    )
    if checks.fits is None:
        yield f"{assumed}; it could not be checked by the number of conditions that rows have."
    else:
        yield f"{assumed}, checked by the number of conditions that rows have. {checks.verdict}"


def _guides(model: ModelState) -> Iterator[str]:
    guides = model.study.codebook.guides
    if guides:
        yield (
            f"{_count(len(guides), 'variable')} of these {'is an' if len(guides) == 1 else 'are'} "
            f"outcome{'' if len(guides) == 1 else 's'}, with the likelihood raised to the power of "
            f"its weight. {no_validation(guides, dict(model.study.labels))}"
        )


def _outcomes(model: ModelState) -> Iterator[str]:
    if not model.outcomes:
        return
    changed = mechanism_for(model.study.policy).smallest > 1
    widened = ", and for what disclosure control has hidden or rounded" if changed else ""
    names = ", ".join(model.outcomes)
    yield (
        f"Outcomes ({names}) were not used to find the clusters. Their rates are corrected for "
        "rows taken for rows of another cluster (Bolck, Croon and Hagenaars, 2004), by how the "
        "model confuses rows that it makes up, with 95 % intervals that allow for this, for levels "
        f"that are estimates{widened}."
    )
    if model.unexplained:
        yield f"Of {', '.join(model.unexplained)}, {UNEXPLAINED}"
    for outcome in model.study.outcomes:
        if outcome.strata:
            strata = ", ".join(variable.name for variable in outcome.strata)
            yield (
                f"{', '.join(outcome.measures)}: standardised to the shares of {strata} among all "
                "rows (direct standardisation)."
            )


def _covariates(model: ModelState, alone: bool) -> Iterator[str]:
    if model.membership is None:
        return
    names = ", ".join(each.name for each in model.study.covariates)
    if alone:
        yield (
            f"The weights of the clusters depend on covariates ({names}) by a multinomial logit, "
            "fitted together with the clusters; standard errors are from the observed information "
            "of coefficients and levels."
        )
        return
    within = " and the site" if model.n_sites > 1 else ""
    yield (
        f"Covariates ({names}) were not used to find the clusters. Membership was regressed on "
        f"them{within} by a multinomial logit, in three steps with the ML correction for rows "
        "taken for rows of another cluster (Vermunt, 2010), from counts alone. The intervals take "
        "the clusters as known."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
