"""Word lists of the rules of constant motion; all in lower case."""

from __future__ import annotations

# Any of these points at something that stands before or behind, or says when.
POINTERS = frozenset(
    """
    above below following follows preceding previous previously foregoing aforementioned earlier
    later next here there this these those it its they them their theirs he him
    his she her hers former latter respectively such said continue resume finally last lastly
    hereafter thereafter underneath overleaf
    """.split()
)

# So do these in the sentence with which a block begins; behind it they mostly point at the block's
# own words ("both ends", "the same thing").
WEAK_POINTERS = frozenset(
    """
    then same again also too otherwise instead else another other others both either neither
    remaining rest now continuing beginning before after afterwards afterward therefore thus hence
    however moreover furthermore consequently meanwhile final already still until unto upper lower
    left right top bottom
    """.split()
)

# Behind a noun these point at text: "the tools listed", "as described".
PARTICIPLES = frozenset("given provided attached mentioned listed shown quoted described".split())

ORDINALS = frozenset(
    """
    first second third fourth fifth sixth seventh eighth ninth tenth 1st 2nd 3rd 4th 5th 6th 7th
    8th 9th 10th
    """.split()
)

# What is said late because it is to win over what came before.
OVERRIDES = frozenset(
    """
    ignore ignoring disregard forget override overrides overrule supersede supersedes regardless
    remember reminder remind reminded repeat nevertheless nonetheless priority precedence
    cancel undo retract
    """.split()
)

FIRST_PERSON = frozenset("i i'm i've i'd i'll me my mine myself we we're we've us our ours".split())

NUMBERS = frozenset(
    "two three four five six seven eight nine ten eleven twelve twenty fifty hundred one".split()
)

# Behind "ignore" these mean what was said, rather than something that is left out of account.
SAID = frozenset(
    """
    all any anything everything whatever instruction instructions command commands request requests
    rule rules prompt text message content
    """.split()
)

# A word that points at other text, between two others beside which it does not.
IDIOMS = frozenset(
    {
        ("on", "its", "own"),
        ("on", "their", "own"),
        ("in", "that", "order"),
        ("in", "lower", "case"),
        ("in", "upper", "case"),
        ("in", "this", "order"),
    }
)

# At the start of a sentence these tie it to the one before.
CONNECTIVES = frozenset("and but or so yet nor because although though whereas while plus".split())

# Behind these "that" is a demonstrative ("in that case"); elsewhere it opens a clause.
BEFORE_DEMONSTRATIVE = frozenset(
    "in of for to with on at from by about as than like and or is was do after before using".split()
)

# A sentence that begins so tells the reader what to do.
INSTRUCTING = frozenset(
    """
    accept act adapt add address adjust aim allow always analyse analyze anchor annotate anonymize
    answer apply ask assemble assess assign assume avoid award balance base be begin brainstorm
    break build calculate call chart check choose circle cite clarify classify close collect
    combine compare compile complete compute conclude consider contrast convert convey copy
    correct count cover create critique cut debug decide decompose deduct define deliver derive
    describe design detect determine diagnose discuss do document don't draft drop elaborate emit
    encode end ensure enumerate estimate evaluate examine exclude expand explain express extract
    fill filter find finish fix flag focus follow format formulate generate give grade group guess
    highlight identify if illustrate imagine improve include index indicate infer insert inspect
    interpret invent judge justify keep label leave limit link list localize look make map mark
    mask match measure mention merge mind modify name never no normalize note notice number offer
    omit only open order organize outline output paraphrase parse pay penalize phrase pick place
    plan please polish predict prefer prepare preserve prioritize produce propose prove provide
    put quantify quote rank rate read reason recommend redact refactor refer refuse reject remove
    render rephrase replace reply report resolve respond restrict return reuse review reward
    rewrite round say scale scan schedule score select separate set shorten show simplify sketch
    skip solve sort speak specify spell split spot start state stay stick strip structure
    subdivide substitute suggest sum summarise summarize support tag tailor take tell test think
    trace transcribe transform translate treat trim try tune turn type underline update use
    validate vary verify weigh when work wrap write you your
    """.split()
)

# Labels in front of instructions, as against labels of material or of turns.
INSTRUCTION_LABELS = frozenset(
    """
    audience categories classes conditions constraints conventions criteria definitions fields
    format goal grading grades guidance guidelines important instruction instructions labels
    language length levels limits method note notes objective output policy procedure
    requirements role rubric rule rules scale scoring severity steps style task tone
    """.split()
)

# Nouns that name what is written or nobody in particular, not a part of the prompt.
GENERAL_NOUNS = frozenset(
    """
    answer answers letter letters word words number numbers digit digits name names label labels
    format result results reply response output json json's reader user model language english
    category categories score scores grade grades value values key keys field fields scale range
    rating decision solution verdict reason reasons explanation confidence date dates amount unit
    units currency level levels sentiment class classes mood tense voice form tool tools
    """.split()
)

# What comes of doing something: "the translation" where the block says "translate".
PRODUCTS = {
    "translation": "translate",
    "summary": "summarize",
    "classification": "classify",
    "comparison": "compare",
    "calculation": "calculate",
    "conversion": "convert",
    "rewriting": "rewrite",
}

# "the most likely ...", "the main ...": says which by a quality.
QUALITIES = frozenset(
    """
    most least best worst main only correct right exact highest lowest closest shortest longest
    strongest weakest smallest largest single more less fewer whole
    """.split()
)

# A noun phrase ends in front of one of these.
PHRASE_ENDS = frozenset(
    """
    a an the of in on at to for with by from as than and or but if when where who whose which that
    is are was were be been being has have had do does did must should can could may might will
    would shall not no into onto over under about between within without per only also it
    """.split()
)

# Announces what comes next, in front of material.
ANNOUNCING = frozenset("following below next here this these".split())
