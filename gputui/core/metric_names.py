"""What is known of a result by its name alone: its words, and which direction is good. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from .results.shapes import Direction

__all__ = ["direction_of", "words_of"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DOWN = _set(
    """loss losses nll cost err error errors mse rmse mae mape smape msle rmsle ppl perplexity wer cer ter der eer
    fid kid lpips hd hd95 brier ece regret xent bpc bpb l1 l2 nmse logloss mlogloss crossentropy rmspe mpe mase crps
    objective energy residual divergence aic bic distortion inertia violations mcd fvd epe ate rpe chamfer
    pae ade fde mpjpe bce kld
    verlust fehler perte erreur pérdida perda perdita errore потери ошибка 损失 損失 误差 誤差 困惑度 손실 오차"""
)
_UP = _set(
    """acc accuracy prec precision recall f1 fscore fbeta auc auroc auprc roc ap map iou miou giou dice bleu sacrebleu
    rouge rouge1 rouge2 rougel meteor psnr ssim r2 ndcg mrr hit hits top1 top5 reward rewards rew return returns ret
    score success elo elbo variance correct kappa mcc jaccard specificity sensitivity pck pq likelihood loglik em mfu
    plddt ptm iptm mota hota idf1 sdr sisdr pesq stoi concordance qwk
    winrate lddt gdt ar pass cider spice bertscore pearson spearman corr correlation silhouette margins
    genauigkeit trefferquote précision exactitude rappel justesse precisión exactitud precisão acurácia precisione
    accuratezza точность полнота 精度 准确率 準確率 正确率 正解率 精确率 召回率 奖励 報酬 정확도 재현율 보상"""
)
_NEITHER = _set(
    """lr rate norm gnorm kl entropy length len lengths time seconds scale weight weights std size count memory temp
    temperature epoch step iter"""
)
_DECIDES_AT_THE_END = frozenset({"rate", "std", "epoch", "step", "iter", "weight", "weights"})
"""They tell nothing beside a word that does: `error_rate`, `train_loss_step`."""
_OPPOSITE = frozenset({"neg", "negative"})
_GLUED = ("loss", "error", "accuracy", "reward", "score", "acc", "rmse", "precision", "recall", "entropy",
          "verlust", "fehler", "genauigkeit", "损失", "損失", "误差", "誤差", "精度", "准确率", "正确率", "正解率",
          "召回率", "奖励", "손실", "정확도")  # fmt: skip

_LETTERS = re.compile(r"(?<=[a-z]{3})\d")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_APART = re.compile(r"[\W_]+")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `valLoss`, `val_loss` and `Val. Loss` have the same."""
    return tuple(word.lower() for word in _APART.split(_CAMEL.sub(" ", name)) if word)


@lru_cache(maxsize=4096)
def direction_of(name: str) -> Direction:
    """The last telling word decides: `val_loss` falls, `loss_acc` rises, of `lr` nobody can say."""
    if name.startswith("-"):
        return _turned(direction_of(name[1:]))
    words = words_of(name)
    telling = [(number, direction) for number, word in enumerate(words) if (direction := _of_word(word)) is not None]
    if not telling:
        return Direction.UNKNOWN
    sure = [each for each in telling if words[each[0]] not in _DECIDES_AT_THE_END]
    number, direction = (sure or telling)[-1]
    if words[number] == "entropy" and "cross" in words[:number]:
        direction = Direction.DOWN
    return _turned(direction) if _OPPOSITE.intersection(words[:number]) else direction


def _of_word(word: str) -> Direction | None:
    for form in (
        word,
        word.rstrip("0123456789"),
        next((end for end in _GLUED if word.endswith(end)), ""),
        _LETTERS.split(word)[0],
    ):
        if form in _DOWN:
            return Direction.DOWN
        if form in _UP:
            return Direction.UP
        if form in _NEITHER:
            return Direction.UNKNOWN
    return None


def _turned(direction: Direction) -> Direction:
    return {Direction.UP: Direction.DOWN, Direction.DOWN: Direction.UP}.get(direction, direction)
