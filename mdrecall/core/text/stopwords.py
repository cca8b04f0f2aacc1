"""Stop words: they say little about what a query looks for, so they count little and never decide.

Compiled for this project: articles, pronouns, auxiliaries, prepositions, conjunctions, question words, vague
time words and words of request, in the languages that OpenClaw's own keyword extraction knows.
"""

_ENGLISH = """
s ll re ve don doesn didn isn wasn weren won wouldn couldn shouldn hasn haven hadn aren ain
a about above after again all also am an and any anybody anyone anything are arent as ask asked at away be
because been before being below between both but by can cannot cant could couldnt did didnt do does doesnt
doing done dont down during each either else ever every few find for from further gave get gets getting give
given go goes going gone got had hadnt has hasnt have havent having he hed help her here heres hers herself
him himself his how hows i id if ill im in into is isnt it its itself ive just kind know let lets like look
made make makes many may maybe me mean might mine more most much must my myself need no nor not now of off
often oh ok okay on once one ones only onto or other others our ours ourselves out over own please put quite
rather really recently said same say says see seem seems shall she shed shes should shouldnt show since so
some somebody someone something sometimes somewhere soon sort still stuff such sure take tell than thank
thanks that thats the their theirs them themselves then there theres these they theyre thing things think
this those though through to today together told tomorrow too took toward tried try under until up upon us
use used uses using usually very want wants was wasnt we well went were werent weve what whatever whats when
whenever where wheres wherever whether which while who whoever whom whos whose why will with within without
wont would wouldnt yes yesterday yet you youd youll your youre yours yourself youve
"""
_SPANISH = """
a al algo ahora ante antes aquel aquella asi aun aunque ayer bien cada como con contra cual cuales cuando
cuanto cuyo de del desde despues donde dos el ella ellas ellos en entre era eran es esa ese eso esos esta
estaba estan estar este esto estos fue fueron ha habia han hasta hay hoy la las le les lo los mas me mi
mientras muy nada ni no nos nosotros nuestra nuestro o otra otro para pero por porque pues que quien quienes
se sea segun ser si sido siempre sin sobre solo son soy su sus tal tambien tan tanto te tener tiene todo
todos tu tus un una uno unos usted y ya yo ayuda busca dime favor muestra
"""
_PORTUGUESE = """
ao aos aquela aquele aquilo as ate com como da das dela dele depois do dos e ela elas ele eles em entao essa
esse estao estava eu foi foram hoje isso isto ja lhe mais mas mesmo meu minha muito na nao nas nem no nos
nossa nosso num numa o onde ontem os ou para pela pelo por porque pra qual quando quem sao sem sempre seu so
sua tambem tem tinha todos um uma umas uns voce voces ajuda mostre procure
"""
_ARABIC = """
في من على إلى عن مع هذا هذه ذلك تلك الذي التي الذين هو هي هم هن أنا نحن أنت أنتم كان كانت يكون تكون قد لقد
لا لم لن ما ماذا متى أين كيف لماذا هل كم أي كل بعض غير بين حتى إذا ثم أو أم لكن بل إن أن كما منذ عند عندما
قبل بعد فوق تحت الآن أمس اليوم غدا فقط أيضا جدا شيء أشياء
"""
_KOREAN = """
그 이 저 그것 이것 저것 것 거기 여기 저기 나 너 우리 저희 그녀 그들 누구 무엇 뭐 언제 어디 어떻게 왜 어느
어떤 얼마나 하다 있다 없다 되다 이다 아니다 그리고 그러나 하지만 그래서 또는 또한 때문에 만약 지금 어제 오늘
내일 아까 최근 나중 매우 너무 정말 아주 조금 다시 계속 모든 각 다른 같은 제발 도와줘 찾아줘 보여줘 알려줘
대해 대한 관련 에서 으로 에게 한테 처럼 보다 까지 부터 합니 니다 습니 는지 인가
"""
_JAPANESE = """
これ それ あれ この その あの ここ そこ あそこ どこ だれ 誰 なに 何 なぜ いつ どう どの どれ する した して
いる いた ある あった なる なった こと もの ため よう から まで より など って です ます でし ました した
たい ない では には とは とし との への につ つい いて につい について とい いう という うな ので のは のが
のを れた れて られ てい でき きる して すか たか るか のか か か。 ください 教え えて 昨日 今日 明日 今
最近 さっき
"""
_CHINESE = """
的 了 和 是 在 我 有 他 她 它 们 我们 你们 他们 这 那 这个 那个 这些 那些 这里 那里 什么 怎么 怎样 为什
为什么 哪里 哪个 哪些 谁 几 多少 如何 何时 吗 呢 吧 啊 就 都 也 很 太 更 最 不 没 没有 可以 能 会 要 想 请
帮 帮我 找 告诉 诉我 一个 一下 一些 以及 因为 所以 但是 如果 或者 而且 之前 之后 以前 以后 刚才 现在 昨天
今天 明天 最近 关于 对于 是什 么时 时候 是谁 是多 有哪 有什 有多 什么时 东西 事情
"""

STOP_WORDS = frozenset(" ".join((_ENGLISH, _SPANISH, _PORTUGUESE, _ARABIC, _KOREAN, _JAPANESE, _CHINESE)).split())
