"""Stop words: they say little about what a query looks for, so they count little and never decide.

Compiled for this project: articles, pronouns, auxiliaries, prepositions, conjunctions, question words, vague time words
and words of request. Words are folded as the analyser folds them. English words, and those of a script that only their
language uses here, are stop words in every query. The lists of the other languages in Latin letters hold words that
mean something elsewhere, such as *die*, *war*, *son* or *dog*: such a list counts only in a query of its language.
"""

from collections.abc import Iterable, Mapping, Set

_ENGLISH = """
s ll re ve don doesn didn isn wasn weren won wouldn couldn shouldn hasn haven hadn aren ain a about above after again
all also am an and any anybody anyone anything are arent as ask asked at away be because been before being below
between both but by can cannot cant could couldnt did didnt do does doesnt doing done dont down during each either
else ever every few find for from further gave get gets getting give given go goes going gone got had hadnt has hasnt
have havent having he hed help her here heres hers herself him himself his how hows i id if ill im in into is isnt it
its itself ive just kind know let lets like look made make makes many may maybe me mean might mine more most much must
my myself need no nor not now of off often oh ok okay on once one ones only onto or other others our ours ourselves
out over own please put quite rather really recently said same say says see seem seems shall she shed shes should
shouldnt show since so some somebody someone something sometimes somewhere soon sort still stuff such sure take tell
than thank thanks that thats the their theirs them themselves then there theres these they theyre thing things think
this those though through to today together told tomorrow too took toward tried try under until up upon us use used
uses using usually very want wants was wasnt we well went were werent weve what whatever whats when whenever where
wheres wherever whether which while who whoever whom whos whose why will with within without wont would wouldnt yes
yesterday yet you youd youll your youre yours yourself youve
"""
_SPANISH = """
a aca ahi ahora al algo alli ante antes aquel aquella aqui asi aun aunque ayer ayuda bien busca cada como con contra
cual cuales cuando cuanta cuanto cuantos cuyo de del desde despues dice dijo dime donde dos el ella ellas ellos en
entre era eran es esa esas ese eso esos esta estaba estan estar este esto estos favor fue fueron ha habia hace hacer
han hasta hay he hemos hizo hoy ir la las le les lo los manana mas me mi mientras muestra muy nada ni no nos nosotros
nuestra nuestro o otra otro para pero por porque pues que quien quienes se sea segun ser si sido siempre sin sobre
solo son soy su sus tal tambien tan tanto te tenemos tener tengo tiene tienen todo todos tu tus un una uno unos usted
va vamos y ya yo
"""
_PORTUGUESE = """
a ajuda ali amanha ao aos aquela aquele aqui aquilo as ate com como da das de dela dele depois disse do dos e ela elas
ele eles em entao essa essas esse esta estao estava este estes eu fazer fez foi foram hoje isso isto ja la lhe mais
mas mesmo meu minha mostre muito na nao nas nem no nos nossa nosso num numa o onde ontem os ou para pela pelas pelo
pelos por porque pra procure quais qual quando quanto que quem sao se sem sempre seu so sua tambem tem temos tenho
tinha todos um uma umas uns vamos voce voces
"""
_GERMAN = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim
bin bis bist bitte da dabei damit dann das dass dein deine dem den denn der des dich die dies diese diesem diesen
dieser dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer fuer fur gab ganz
gegeben gegen gehabt gerade gern gestern gewesen gibt habe haben habt hast hat hatte hatten heute hier ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein
keine keinem keinen keiner koennen konnen konnte machen macht man manche mehr mein meine meinem meinen meiner mich mir
mit morgen muss mussen nach nicht nichts noch nun nur ob oder ohne sag schon sehr sein seine seinem seinen seiner seit
sich sie sind so soll sollte sondern uber um und uns unser unsere unserem unseren unserer unter vom von vor wahrend
wann war waren warst warum was wegen weil welche welchem welchen welcher welches wem wen wenn wer werde werden wie
wieder wieso will wir wird wirst wo woher wohin wurde wurden zeig zu zum zur zwischen
"""
_FRENCH = """
a ai as au aucun aucune aujourd aussi autre autres aux avaient avait avant avec avez avoir avons ayant bien c ca car
ce ceci cela celle celles celui ces cet cette chaque chez ci comme comment d dans de demain depuis des dis donc dont
du elle elles en encore entre es est et etaient etais etait ete etre eu eux faire fait faut fois hier hui ici il ils j
je jusqu l la le les leur leurs lors lorsque lui m ma mais me meme mes mien moi mon montre n ne ni nos notre nous on
ont or ou oui par parce parmi pas pendant peu peut plus plusieurs pour pourquoi pouvez puis qu quand que quel quelle
quelles quelque quelques quels qui quoi s sa sans se selon sera ses si sien soit sommes son sont sous suis sur svp t
ta te tes toi ton tous tout toute toutes tres trop tu un une vers voici voila vos votre vous y
"""
_ITALIAN = """
a abbiamo ad agli ai al alla alle allo anche ancora avere avete aveva avevano c che chi ci cio coi col come con cosa
cui da dagli dai dal dalla dalle dallo degli dei del della delle dello di dimmi domani dove e ed era erano essere fa
fare fatto fino fra fu ha hai hanno ho i ieri il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio
molto mostra ne negli nei nel nella nelle nello no noi non nostra nostro o oggi ogni per perche piu po poi puo qual
quale quali quando quanto quasi quella quelle quelli quello questa queste questi questo qui se sei sempre senza si sia
siamo sono sta stata stato su sua sue sugli sui sul sulla sulle suo suoi tra tu tua tuo tutti tutto un una uno vi voi
"""
_DUTCH = """
aan al alle alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen
geweest gisteren haar had hadden heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij jou jouw
jullie kan kon kunnen maar me meer men met mij mijn moet morgen na naar niet niets nog nu of om omdat onder ons onze
ook op over reeds te tegen toch toen tot u uit uw van vandaag veel voor waar waarom wanneer want waren was wat we weer
wel welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo zonder zou
"""
_DANISH = """
ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din dine disse dit dog du efter
eller en end er et fa for fra gar gor gore ham han hans har havde have hende hendes her hos hun hvad hvem hver hvilke
hvilken hvilket hvis hvor hvordan hvorfor hvornar i idag igar ikke imorgen ind ja jeg jer jo kan kunne ma man mange
med meget men mere mig min mine mit mod nar ned nej ni nogen noget nogle nu og ogsa om op os over pa sa sadan sagde
selv sig sin sine sit skal skulle som til ud under vaere vaeret var vi vil ville vor
"""
_NORWEGIAN = """
alle alt andre at av bade bare ble bli blir da de deg dem den denne der dere deres det dette di din dine disse ditt du
dykk eller en enn er et ett etter for fordi fra gar gjorde gjore ha hadde han hans har henne hennes her hva hvem hver
hvilke hvilken hvilket hvis hvor hvordan hvorfor i idag igar ikke imorgen inn ja jeg kan kunne ma man mange med meg
mellom men mer min mine mitt mot na nar nei noe noen og ogsa om opp oss over pa sa samme seg selv si sin sine sitt
skal skulle slik som til ut uten vaere vaert var vart ved vi vil ville
"""
_SWEDISH = """
alla allt an andra ar att av bara blev bli blir da dar de dem den denna deras dess dessa det detta dig din dina ditt
du efter eller en er ett for fore fran gick gjorde gor gora ha hade han hans har henne hennes hon hos hur i idag igar
imorgon in inte ja jag ju kan kom kunde ma man maste mellan men mer mig min mina mitt mot mycket nagon nagot nagra nar
ni nu och ocksa om oss over pa sa samma sedan sig sin sina sitt sjalv ska skulle som till under upp ur ut utan vad var
vara varfor varit varje vart vem vems vi vid vilka vilken vilket
"""
_FINNISH = """
ei eika eilen eivat emme en et etta ette han hanen hanta he heidan huomenna ja joka jonka jos jossa jota joten kanssa
keita keta koska kuin kuinka kuka kun me meidan mihin mika miksi milloin mina minka minulla minulle minun missa mista
mita miten mukaan mutta myos ne niiden niin nyt ole olemme olen olet olette oli olimme olin olivat olla ollut on ovat
se seka sen siella siina siita silla sille sina sinun sita tai talla tama taman tanaan tassa te tuo tuon vai vaikka
vain voi voin
"""
_POLISH = """
a aby albo ale ani bardzo bedzie bez bo byc byl byla byli bylo byly ci co czemu czy czyli dla dlaczego do dzis dzisiaj
gdy gdzie go i ich ile im inne iz ja jak jaka jaki jakie je jego jej jest jestem jeszcze jutro juz kiedy kto ktora
ktore ktory ktorzy ku lub ma maja mam mi miedzy mnie moj moja moje moze mu my na nad nam nas nasz nasza nasze nic nich
nie niej nim o od on ona one oni ono oraz pan po pod przed przez przy sa sie skad ta tak takze tam te tego tej ten
teraz tez to tu tutaj ty tylko tym u w wczoraj we wiec wszystko wy z za ze zeby
"""
_TURKISH = """
ama ancak bana bazi belki ben beni benim bile bir biri birkac biz bize bizi bizim bu bugun buna bunu bunun burada cok
cunku da daha de defa diye dun en gibi gore hangi hani hem hep hepsi her hic icin ile ise kadar ki kim kime mi mu
nasil ne neden nerede nereye nicin niye o olan olarak oldu oldugu olsa ona onlar onu onun orada oyle sanki sen seni
senin sey simdi siz sizin su sunu tum var ve veya ya yani yarin yok zaman
"""
_INDONESIAN = """
ada adalah agar akan aku anda apa apakah atau bagaimana bahwa besok bisa bukan dalam dan dapat dari dengan di dia
hanya hari harus ini itu jika juga kami kamu kapan karena ke kemarin kepada kita lagi mana mengapa mereka oleh pada
saya sebagai sebuah sedang sekarang seperti siapa sudah telah tentang tidak untuk yang
"""
_VIETNAMESE = """
ai ban bao cac cho chung co cua cung da dang dau den do duoc gi hay ho hoac hom khi khong la mot nao nay neu nhieu nhu
nhung no o qua rat sao se ta thi toi trong tu va ve vi voi
"""
_RUSSIAN = """
а без более бы был была были было быть в вам вас весь во вот все всего вчера вы где да даже для до его ее еи ему если
есть еще же за завтра зачем здесь и из или им их к как какая какие какои когда которая которые которыи кто куда ли
либо меня мне мое может мои моя мы на над надо наш наша наши не него нее неи нет ни них но ну о об он она они оно от
откуда очень по под почему при с сам свои себя сегодня сеичас сколько со так также такои там тебе тебя тем то тогда
того тоже только том ты у уже хоть чего чеи чем что чтобы чье эта эти это этого этои этом этот я
"""
_UKRAINIAN = """
або але бо був була були було в вам вас вже ви вона вони воно все вчора від він де для до з за зараз и иого кого коли
кому мене мені ми може на не ні при про під с сьогодні та так також там те ти то тільки у хто це цеи ця ці чи чому що
щоб я як яка якии які і із іх іі
"""
_GREEK = """
αλλα αν απο αυριο για γιατι δεν ειναι ειχε εχει η ηταν θα και κι μασ με μη μου να ο οι ποια ποιο ποιοσ ποτε που πωσ
σασ σε σημερα σου στα στη στην στο στον τα την τησ τι τισ το τον του τουσ των τωρα χθεσ χτεσ ωσ
"""
_HEBREW = """
אבל או איך אין איפה אל אם אנחנו אני את אתה אתמול גם האם הוא היא היה היו היום היתה הם הן זאת זה זו יש כי כל כמה כן לא
למה מה מחר מי מתי עד עכשיו על עם רק של
"""
_PERSIAN = """
از است الان اما امروز ان انها او اگر این با برای به بود بودند تا تو دارد در دیروز را شد شما فردا ما من نیست هست هم و
چرا چند چه چگونه چی کجا که کی یا
"""
_HINDI = """
अपना अपने अब आज आप आपका इन इस उन उस एक और कब कर करना कल कहाँ कहां का कि कितना कितने किया किस किसने की के कैसे को कौन
क्या क्यों गई गए गया जो तक तुम तो था थी थे नहीं ने पर पहले बाद भी में मेरा मेरी मेरे मैं यह या ये रहा रही रहे लिए
लेकिन वह वे साथ से हम हमारा हमारी ही है हैं हो होता
"""
_ARABIC = """
اذا اشياء الامس الان البارحة التي الذي الذين الغد الى اليه اليوم ام امبارح امس ان انا انت انتم اننا او اي ايضا اين
بالامس بالغد بعد بعض بل به بها بين تحت تكون تلك ثم جدا حتى حول ذلك شيء على عليه عليها عن عند عندما عندنا عندي غد غدا
غير فقط فوق في فيه فيها قبل قد كان كانت كذلك كل كم كما كيف لا لدى لدي لقد لكن لم لماذا لن له لها لهم ليس ليست ما ماذا
متى مع من منذ منه منها نا نحن ني هذا هذه هل هم هن هنا هناك هو هي واليوم وامس وغدا وهو وهي يكون
"""
_KOREAN = """
그 이 저 그것 이것 저것 것 거기 여기 저기 나 너 우리 저희 그녀 그들 누구 무엇 뭐 언제 어디 어떻게
왜 어느 어떤 얼마나 하다 있다 없다 되다 이다 아니다 그리고 그러나 하지만 그래서 또는 또한 때문에 만약
지금 어제 오늘 내일 아까 최근 나중 매우 너무 정말 아주 조금 다시 계속 모든 각 다른 같은 제발 도와줘
찾아줘 보여줘 알려줘 대해 대한 관련 에서 으로 에게 한테 처럼 보다 까지 부터 합니 니다 습니 는지 인가
"""
_JAPANESE = """
これ それ あれ この その あの ここ そこ あそこ どこ だれ 誰 なに 何 なぜ いつ どう どの どれ する
した して いる いた ある あった なる なった こと もの ため よう から まで より など って です ます
でし ました たい ない では には とは とし との への につ つい いて につい について とい いう という
うな ので のは のが のを れた れて られ てい でき きる すか たか るか のか か か。 ください 教え えて
昨日 今日 明日 今 最近 さっき
"""
_CHINESE = """
的 了 和 是 在 我 有 他 她 它 们 我们 你们 他们 这 那 这个 那个 这些 那些 这里 那里 什么 怎么
怎样 为什 为什么 哪里 哪个 哪些 谁 几 多少 如何 何时 吗 呢 吧 啊 就 都 也 很 太 更 最 不 没 没有
可以 能 会 要 想 请 帮 帮我 找 告诉 诉我 一个 一下 一些 以及 因为 所以 但是 如果 或者 而且 之前
之后 以前 以后 刚才 现在 昨天 今天 明天 最近 关于 对于 是什 么时 时候 是谁 是多 有哪 有什 有多 什么时
东西 事情
"""

_LATIN: Mapping[str, frozenset[str]] = {
    "es": frozenset(_SPANISH.split()),
    "pt": frozenset(_PORTUGUESE.split()),
    "de": frozenset(_GERMAN.split()),
    "fr": frozenset(_FRENCH.split()),
    "it": frozenset(_ITALIAN.split()),
    "nl": frozenset(_DUTCH.split()),
    "da": frozenset(_DANISH.split()),
    "no": frozenset(_NORWEGIAN.split()),
    "sv": frozenset(_SWEDISH.split()),
    "fi": frozenset(_FINNISH.split()),
    "pl": frozenset(_POLISH.split()),
    "tr": frozenset(_TURKISH.split()),
    "id": frozenset(_INDONESIAN.split()),
    "vi": frozenset(_VIETNAMESE.split()),
}
_ENGLISH_WORDS = frozenset(_ENGLISH.split())
_OTHER_SCRIPTS = frozenset(
    " ".join((_RUSSIAN, _UKRAINIAN, _GREEK, _HEBREW, _PERSIAN, _HINDI, _ARABIC, _KOREAN, _JAPANESE, _CHINESE)).split()
)
# Stop words elsewhere that are English words, names or abbreviations: they do not show what language a query is in.
_ALSO_ENGLISH = """
ad ai al ali alla allen alt ana ate ban bare ben bile bin biz car chi co col com come comment con da dan de del den
des di dice die dig dis dog door du dun el end er era est fa fare favor fra fu fur gore ham han hans hat hay hem hui
hun il inn ins io kim kom la las le les lo los ma man med men mere met mi mia min mir mit mod mon mu na ned nos ole os
over pa pan par pas pendant per plus pod pour qua rat sag sam san sea sei ser ses sin sit solo son soy sur tal tan te
ten till til ton tra tum u uber un van var vi von war wil
"""
_AMBIGUOUS = frozenset(_ALSO_ENGLISH.split())


def find_stop_words(words: Iterable[str]) -> frozenset[str]:
    """Return those of a query's folded words that are stop words in it."""
    there = frozenset(words)
    certain = there & _ENGLISH_WORDS
    found = certain | (there & _OTHER_SCRIPTS)
    for language in _guess_languages(there - found, len(certain)):
        found |= there & _LATIN[language]
    return found


def is_english(words: Set[str]) -> bool:
    """True if more of a query's folded words are stop words of English than of any other language."""
    return len(words & _ENGLISH_WORDS) > max(len(words & others) for others in _LATIN.values())


def stop_words_of(language: str) -> frozenset[str]:
    """Return the stop words of a language in Latin letters."""
    return _ENGLISH_WORDS if language == "en" else _LATIN[language]


def count_words(words: Set[str], language: str) -> int:
    """Return how many of the words are stop words of a language in Latin letters and of no English sentence."""
    return len((words & _LATIN[language]) - _ENGLISH_WORDS)


def _guess_languages(words: Set[str], english_count: int) -> list[str]:
    """Return the languages that a query may be in, apart from English, by how many stop words of theirs it has."""
    counts = {language: count_words(words, language) for language in _LATIN if (words & _LATIN[language]) - _AMBIGUOUS}
    most = max(counts.values(), default=0)
    return [language for language, count in counts.items() if count == most and count >= english_count]
